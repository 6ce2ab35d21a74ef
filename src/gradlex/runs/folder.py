"""A run on disk: run.json; checkpoint.pt until it is finished; then model.safetensors and result.json.

generations.jsonl is a view: the records of a run in training are in its checkpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from gradlex._checks import parsed
from gradlex._files import read_text, write_atomically
from gradlex.callbacks import Record
from gradlex.errors import InputError

RUN, RESULT, RECORDS = "run.json", "result.json", "generations.jsonl"
WEIGHTS, CHECKPOINT = "model.safetensors", "checkpoint.pt"


class Described(BaseModel):
    """What run.json holds: all that is known of a run when it starts."""

    model_config = ConfigDict(extra="allow")

    gradlex: str
    """The version that started it."""
    recipe: dict[str, Any]
    """The resolved recipe."""
    data: dict[str, Any]
    """Name, fingerprints, samples of each part, normalization, what the task learned."""
    model: dict[str, Any]
    """Name, number of parameters and of outputs."""
    environment: dict[str, Any]
    """Versions, processor, device, threads, processes; the folder that a relative path of the data counts from."""


class Result(BaseModel):
    """What result.json holds: how a run ended."""

    model_config = ConfigDict(extra="allow")

    metrics: dict[str, dict[str, float | None]]
    """The metrics of the final model by part; null stands for a number that is not finite."""
    stopped: str | None = None
    """Why it ended before its last generation."""
    seconds: float
    samples_trained: int
    critical_path: int
    """Samples trained if every candidate had a processor of its own."""
    cases_evaluated: int
    generations: int


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(os.path.abspath(os.path.expanduser(path)))  # a model may change the current folder

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here."""
        return (self.path / RUN).exists()

    @property
    def finished(self) -> bool:
        """Whether a run ended here."""
        return self.holds_run and (self.path / RESULT).exists()

    def check_free(self) -> None:
        """Raise an error if a run is here, or if this can't become a folder; nothing is changed."""
        if self.holds_run:
            raise InputError(
                f"{self.path} already holds a run: choose another folder, or continue it (gradlex resume)."
            )
        above = self.path
        while not above.exists():
            above = above.parent
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise InputError(f"{self.path} cannot be written ({above} doesn't allow it): choose another folder.")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder, and keep other processes from training in it; a crash lets it go."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock", timeout=0):
                yield
        except Timeout as error:
            raise InputError(f"another process is training in {self.path}: wait for it, or stop it.") from error

    def describe(self, described: Described) -> None:
        """Begin the run: write run.json, and an empty file of records in place of whatever lies there."""
        self.write_records([])
        self._write(RUN, described)

    def description(self) -> Described:
        """What run.json holds."""
        if not self.holds_run:
            found = sorted(path.parent for path in self.path.glob(f"*/seed*/{RUN}"))
            cure = (
                f"it holds a comparison: name one of its runs, such as {found[0]}." if found else f"there is no {RUN}."
            )
            raise InputError(f"{self.path} holds no run: {cure}")
        return parsed(Described, read_text(self.path / RUN), self.path / RUN)

    def result(self) -> Result:
        """What result.json holds."""
        if not self.finished:
            raise InputError(f"the run in {self.path} is not finished: continue it with gradlex resume.")
        return parsed(Result, read_text(self.path / RESULT), self.path / RESULT)

    def append_record(self, record: Record) -> None:
        """Add a line to the view of the records."""
        with open(self.path / RECORDS, "a", encoding="utf-8") as file:
            file.write(line_of(record) + "\n")

    def write_records(self, history: Sequence[Record]) -> None:
        """Write the view of the records anew."""
        lines = "".join(line_of(record) + "\n" for record in history)
        write_atomically(self.path / RECORDS, lines.encode())

    def records(self) -> list[Record]:
        """The records of a finished run."""
        return parse_records(read_text(self.path / RECORDS, 2**30).splitlines(), self.path / RECORDS)

    def finish(self, result: Result, history: Sequence[Record], weights: Mapping[str, Tensor]) -> None:
        """Write how a run ended, its result last; then the checkpoint isn't needed any more."""
        write_atomically(self.path / WEIGHTS, safetensors.torch.save(dict(weights)))
        self.write_records(history)
        self._write(RESULT, result)
        (self.path / CHECKPOINT).unlink(missing_ok=True)

    def _write(self, name: str, content: BaseModel) -> None:
        text = json.dumps(content.model_dump(), indent=1, allow_nan=False)
        write_atomically(self.path / name, f"{text}\n".encode())


def line_of(record: Record) -> str:
    """A record's line in generations.jsonl."""
    return json.dumps(record.to_line(), separators=(",", ":"), allow_nan=False)


def parse_records(lines: Sequence[str], where: Path) -> list[Record]:
    """The records of these lines, which count the generations from 1."""
    history = [Record.from_line(line, f"{where}: line {number}") for number, line in enumerate(lines, start=1)]
    if [record.generation for record in history] != list(range(1, len(history) + 1)):
        raise InputError(f"{where} is damaged: its lines don't number the generations from 1. Restore the file.")
    return history
