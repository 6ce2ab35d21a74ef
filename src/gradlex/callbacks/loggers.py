"""Loggers: callbacks that copy the numbers of each generation into another tool."""

from __future__ import annotations

import importlib.util
import math
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from gradlex._files import read_text
from gradlex.callbacks.callback import Callback, LiveRun
from gradlex.callbacks.record import Record
from gradlex.errors import InputError


class Logger(Callback):
    """Override `open`, `write` and `on_end`. A resumed run continues its log."""

    library: ClassVar[str] = ""
    """The library that it needs, and the extra that installs it."""

    def __init__(self) -> None:
        if self.library and importlib.util.find_spec(self.library) is None:
            raise InputError(f"{type(self).__name__} needs {self.library}: pip install 'gradlex[{self.library}]'")

    def open(self, run: LiveRun) -> int:
        """Open the log; returns the last generation that it holds already."""
        return 0

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of one generation."""

    def on_start(self, run: LiveRun) -> None:
        """Open the log, and write what it misses of a run that continues."""
        written = self.open(run)
        for record in run.history:
            if record.generation > written:
                self.write(record.generation, numbers(record))

    def on_generation(self, record: Record, run: LiveRun) -> None:
        """Write one more generation."""
        self.write(record.generation, numbers(record))


def numbers(record: Record) -> dict[str, float]:
    """The numbers of one generation by name, as loggers write them; without those that are not finite."""
    found: dict[str, float | None] = {
        "lr": record.lr,
        "loss/chosen": record.losses[record.chosen],
        **{f"loss/candidate{index}": loss for index, loss in enumerate(record.losses)},
        "selection/chosen": record.chosen,
        "selection/cases_used": record.cases_used,
        "selection/cases_evaluated": record.cases_evaluated,
        "selection/disagreement": record.disagreement,
        "seconds/train": record.train_seconds,
        "seconds/select": record.select_seconds,
        **{f"{part}/{name}": value for part, own in record.metrics.items() for name, value in own.items()},
    }
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}


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
        """One scalar per number."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, generation)
        self._writer.flush()

    def on_end(self, run: LiveRun) -> None:
        """Close the event file."""
        self._writer.close()


class WandB(Logger):
    """Weights & Biases; further options go to `wandb.init`, such as `mode="offline"`."""

    library = "wandb"

    def __init__(self, project: str = "gradlex", **options: Any) -> None:
        super().__init__()
        self._project, self._options = project, options
        self._run: Any = None

    def open(self, run: LiveRun) -> int:
        """Begin a run there, or continue the one that this run logged to before it was interrupted."""
        import wandb

        name = _name(run)
        given = {"id": name, "name": name, "config": run.recipe.to_dict(), "resume": "allow"}
        place = {} if run.path is None else {"dir": str(run.path)}
        self._run = wandb.init(project=self._project, **{**given, **place, **self._options})
        return int(self._run.step) - 1  # wandb's is the next one

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """One step per generation."""
        self._run.log(dict(numbers), step=generation)

    def on_end(self, run: LiveRun) -> None:
        """Send what is left."""
        self._run.finish()


def _name(run: LiveRun) -> str:
    """What a run is called there; its folder keeps the name, so that a resumed run finds it again."""
    new = f"{run.path.name if run.path else 'run'}-{uuid.uuid4().hex[:8]}"
    if run.path is None:
        return new
    kept = run.path / "wandb.txt"
    if not run.history or not kept.exists():
        kept.write_text(new, encoding="utf-8")
    return read_text(kept)
