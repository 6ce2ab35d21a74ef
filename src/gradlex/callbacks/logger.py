"""Logger: a callback that copies the numbers of each generation into another tool."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from typing import ClassVar

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
