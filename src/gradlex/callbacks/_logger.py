"""Logger: a callback that copies the numbers of every generation into another tool. It cannot end a run."""

from __future__ import annotations

import importlib.util
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from gradlex._files import parse_json, write_whole
from gradlex.callbacks._callback import Callback, LiveRun
from gradlex.callbacks._record import Record
from gradlex.errors import InputError

FILE = "loggers.json"
"""In the run folder: which loggers a run has, and under what name each knows it."""


class Logger(Callback, ABC):
    """Override `open`, `write` and `close`; the library is imported in `open`.

    What they raise is reported once, and the run continues without the logger. A resumed run continues its log: what is
    missing is written, and nothing twice.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> from gradlex.callbacks import Logger
        >>> class Losses(Logger):
        ...     name = "losses"
        ...     def open(self, run):
        ...         return 0  # the first generation to write
        ...     def write(self, generation, numbers):
        ...         print(generation, sorted(numbers)[:2])
        ...     def close(self, run):
        ...         print(run.ended)
        >>> data = torch.randn(60, 4), torch.arange(60) % 2
        >>> recipe = gradlex.Recipe(generations=2, batch_size=16)
        >>> run = gradlex.train(torch.nn.Linear(4, 2), data, recipe, callbacks=[Losses()])
        0 ['candidates/disagreement', 'candidates/movement']
        1 ['candidates/disagreement', 'candidates/movement']
        finished
    """

    name: ClassVar[str]
    """What it is called on the command line and in loggers.json."""
    notes: dict[str, Any]
    """What it has to know when the run is resumed: JSON, kept in loggers.json; read and written in `open`."""

    @abstractmethod
    def open(self, run: LiveRun) -> int:
        """Open the log, or continue the one that there is; the first generation that is to be written."""

    @abstractmethod
    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of one generation."""

    @abstractmethod
    def close(self, run: LiveRun) -> None:
        """Close the log; `run.ended` says how the run ended. It may not have been opened."""

    def on_start(self, run: LiveRun) -> None:
        """Open the log and write what it does not have yet of a run that continues."""
        self._failed, self._first = False, 0
        with self._reporting(run):
            known = {} if run.path is None else _read(run.path)
            self.notes = dict(known.get(self.name, {}))
            self._first = self.open(run)
            if run.path is not None and known.get(self.name) != self.notes:
                _write(run.path, {**known, self.name: self.notes})
            for record in run.records:
                self._log(record)

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """Write one more generation."""
        if not self._failed:
            with self._reporting(run):
                self._log(record)

    def on_end(self, run: LiveRun) -> None:
        """Close the log."""
        with self._reporting(run):
            self.close(run)

    def _log(self, record: Record) -> None:
        if record.generation >= self._first:
            self.write(record.generation, numbers(record))

    @contextmanager
    def _reporting(self, run: LiveRun) -> Iterator[None]:
        """Say once what failed; the run is worth more than its log."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # whatever another library may raise
            if not self._failed:
                run.notice(
                    f"the logger {type(self).__name__} failed, and the run continues without it: "
                    f"{type(error).__name__}: {error}"
                )
            self._failed = True


def numbers(record: Record) -> dict[str, float]:
    """The numbers of one generation by name, as loggers write them; those that are not finite are left out."""
    found: dict[str, float | None] = {
        "lr": record.lr,
        "loss/selected": record.losses[record.selected],
        **{f"loss/candidate{index}": loss for index, loss in enumerate(record.losses)},
        "selection/selected": record.selected,
        "selection/cases_used": record.cases_used,
        "selection/cases_evaluated": record.cases_evaluated,
        "selection/entropy": record.entropy,
        "candidates/movement": record.movement,
        "candidates/spread": record.spread,
        "candidates/disagreement": record.disagreement,
        **{f"heritability/{name}": value for name, value in (record.heritability or {}).items()},
        "seconds/train": record.train_seconds,
        "seconds/select": record.select_seconds,
        **{f"{part}/{name}": value for part, own in record.metrics.items() for name, value in own.items()},
    }
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}


def stored_loggers(path: Path) -> tuple[str, ...]:
    """The names of the loggers that the run in this folder has."""
    try:
        return tuple(_read(path))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path / FILE} cannot be read: {error}. Name the loggers (--log), or remove it."
        ) from error


def require(library: str, *, extra: str) -> None:
    """Refuse a logger whose library is not installed."""
    if importlib.util.find_spec(library) is None:
        raise InputError(
            f"logging to {extra} needs {library}, which is not installed: pip install 'gradlex[{extra}]'"
        )


def folder_of(run: LiveRun, given: Path | None, name: str) -> Path:
    """Where a logger that writes files puts them: as given, else below the run folder."""
    if given is not None:
        return given
    if run.path is None:
        raise ValueError("the run writes no folder (out=...), so the logger must be given a path of its own.")
    return run.path / name


def _read(path: Path) -> dict[str, dict[str, Any]]:
    file = path / FILE
    found = parse_json(file.read_bytes()) if file.exists() else {}
    if not isinstance(found, dict) or not all(isinstance(notes, dict) for notes in found.values()):
        raise ValueError(f"{FILE} holds no loggers")
    return found


def _write(path: Path, known: Mapping[str, Mapping[str, Any]]) -> None:
    write_whole(path / FILE, (json.dumps(known, indent=2) + "\n").encode())
