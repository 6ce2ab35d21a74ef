"""TensorBoard, by torch's own writer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradlex.callbacks._callback import LiveRun
from gradlex.callbacks._logger import Logger, folder_of, require


class TensorBoard(Logger):
    """Event files in `folder` (default: tensorboard/ in the run folder): `tensorboard --logdir runs`.

    Examples:
        >>> from gradlex.callbacks import TensorBoard
        >>> logger = TensorBoard("logs/first")  # then gradlex.train(..., callbacks=[logger])
        >>> logger.name
        'tensorboard'
    """

    name = "tensorboard"

    def __init__(self, folder: str | Path | None = None) -> None:
        require("tensorboard", extra="tensorboard")
        self._folder = None if folder is None else Path(os.path.abspath(folder))
        self._writer: Any = None

    def open(self, run: LiveRun) -> int:
        """Events from generations that a resumed run computes again are purged."""
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  # imports tensorboard

        folder = folder_of(run, self._folder, "tensorboard")
        continues = any(folder.glob("events.out.tfevents.*"))
        first = len(run.records) if continues else 0
        self._writer = SummaryWriter(str(folder), purge_step=first if continues else None)
        if first == 0:
            self._writer.add_text("recipe", f"```json\n{json.dumps(run.recipe.to_dict(), indent=2)}\n```")
        return first

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """One scalar per number; flushed, so that a kill loses none."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, generation)
        self._writer.flush()

    def close(self, run: LiveRun) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
