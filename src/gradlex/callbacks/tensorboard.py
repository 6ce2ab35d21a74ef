"""TensorBoard, by torch's own writer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradlex.callbacks.callback import LiveRun
from gradlex.callbacks.logger import Logger
from gradlex.errors import InputError


class TensorBoard(Logger):
    """Event files in `folder` (default: tensorboard/ in the run folder): `tensorboard --logdir runs`."""

    library = "tensorboard"

    def __init__(self, folder: str | Path | None = None) -> None:
        super().__init__()
        self._folder = None if folder is None else Path(folder).absolute()
        self._writer: Any = None

    def open(self, run: LiveRun) -> int:
        """Hide what an interrupted run logged after its last checkpoint."""
        from torch.utils.tensorboard import SummaryWriter

        if self._folder is None and run.path is None:
            raise InputError("this run writes no folder: give TensorBoard one, or set out=.")
        folder = self._folder or Path(run.path or "") / "tensorboard"
        written = len(run.history) if any(folder.glob("events.out.tfevents.*")) else 0
        self._writer = SummaryWriter(str(folder), purge_step=written + 1 if written else None)
        return written

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """One scalar a number."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, generation)
        self._writer.flush()

    def on_end(self, run: LiveRun) -> None:
        """Close the event file."""
        self._writer.close()
