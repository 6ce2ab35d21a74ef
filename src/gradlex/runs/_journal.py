"""Journal: what the leading process writes while a run goes on, and finds again when it is resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gradlex._version import __version__
from gradlex.engine import Evaluation
from gradlex.errors import InputError, RunError
from gradlex.population import Parent
from gradlex.runs._checkpoint import DamagedError, checkpoints, load_checkpoint, save_checkpoint
from gradlex.runs._folder import RunFolder
from gradlex.runs._problem import Problem
from gradlex.runs._records import Record, environment, evaluation_line


class Journal:
    """The records of a run so far, in memory and, with a folder, on disk.

    A record is appended before the checkpoint that follows it; the checkpoint knows how long the records were,
    so that resuming cuts what came after it and no line is there twice or missing.
    """

    def __init__(
        self,
        problem: Problem,
        folder: RunFolder | None,
        *,
        workers: int = 1,
        checkpoint_every: int = 1,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._problem, self._folder, self._workers = problem, folder, workers
        self._every, self._notice = checkpoint_every, notice or (lambda text: None)
        self._started = time.perf_counter()
        self._seconds_before = 0.0
        self._saved = -1
        self.records: list[Record] = []

    def begin(self, first: Parent) -> Parent:
        """Start the run folder, or go on from its newest sound checkpoint; the parent to start from."""
        if self._folder is None:
            return first
        self._guard(self._describe)
        parent, progress = self._newest(first)
        lengths = progress.get("bytes", {})
        for name in ("generations.jsonl", "evaluations.jsonl"):
            self._folder.cut(name, lengths.get(name, 0))
        self._seconds_before = progress.get("seconds", 0.0)
        self.records = _read_records(self._folder)
        if len(self.records) != parent.generation:
            raise InputError(
                f"{self._folder.path / 'generations.jsonl'} has {len(self.records)} lines, its checkpoint "
                f"{parent.generation}: the file was changed. Start again in another folder."
            )
        self._saved = parent.generation
        return parent

    def add(self, record: Record, parent: Parent, *, last: bool) -> None:
        """Record a generation, and save its parent when it is due."""
        self.records.append(record)
        if self._folder is None:
            return
        folder, evaluation = self._folder, record.evaluation
        self._guard(lambda: folder.append("generations.jsonl", record.line()))
        if evaluation is not None:
            self._guard(
                lambda: folder.append("evaluations.jsonl", evaluation_line(record.generation, evaluation))
            )
        if last or parent.generation % self._every == 0:
            self.save(parent)

    def save(self, parent: Parent) -> None:
        """Write a checkpoint now, unless this generation has one."""
        if self._folder is None or self._saved == parent.generation:
            return
        folder = self._folder
        progress = {
            "bytes": {name: folder.length(name) for name in ("generations.jsonl", "evaluations.jsonl")},
            "seconds": self.seconds,
        }
        self._guard(lambda: save_checkpoint(folder.path / "checkpoint", parent, progress))
        self._saved = parent.generation

    def finish(self, weights: Callable[[], bytes], result: dict[str, Any]) -> None:
        """Write the final model, and the result last."""
        if self._folder is not None:
            folder = self._folder
            self._guard(lambda: folder.write_bytes("model.safetensors", weights()))
            self._guard(lambda: folder.write_json("result.json", result))

    @property
    def how_to_resume(self) -> str:
        """The end of a message: what to do to go on."""
        return "" if self._folder is None else f"; go on with: gradlex resume {self._folder.path}"

    @property
    def seconds(self) -> float:
        """Time spent on the run, in all its sittings."""
        return round(self._seconds_before + time.perf_counter() - self._started, 3)

    def _describe(self) -> None:
        assert self._folder is not None
        recipe = self._problem.recipe
        stored = {"gradlex": __version__, "recipe": recipe.to_dict(), "data": self._problem.data}
        if not self._folder.holds_run or self._folder.read_json("recipe.json")["recipe"] != stored["recipe"]:
            self._folder.write_json("recipe.json", stored)
        described = environment(recipe, self._problem.device, self._workers)
        self._folder.write_json("environment.json", described)

    def _newest(self, first: Parent) -> tuple[Parent, dict[str, Any]]:
        assert self._folder is not None
        found = checkpoints(self._folder.path / "checkpoint")
        inherits = self._problem.recipe.momentum == "inherit"
        for place, path in enumerate(reversed(found)):
            try:
                return load_checkpoint(path, first, inherits=inherits)
            except DamagedError as damage:  # noqa: PERF203  # at most two
                if place + 1 == len(found):
                    raise InputError(
                        f"{damage}; no earlier checkpoint is sound, so this run cannot go on. "
                        "Start it again in another folder."
                    ) from damage
                self._notice(f"{damage}: passed over, the checkpoint before it is used.")
        return first, {}

    def _guard(self, write: Callable[[], None]) -> None:
        """Write; if the disk refuses, say which file, what is safe and how to go on."""
        assert self._folder is not None
        try:
            write()
        except OSError as error:
            done = len(checkpoints(self._folder.path / "checkpoint"))
            safe = "its last checkpoint is sound" if done else "there was no checkpoint yet"
            raise RunError(
                f"{error.filename or self._folder.path} could not be written: {error.strerror or error}. The run has "
                f"ended and {safe}; make room, then: gradlex resume {self._folder.path}"
            ) from error


def _read_records(folder: RunFolder) -> list[Record]:
    try:
        evaluations = {
            line["generation"]: Evaluation(accuracy=line["test_accuracy"], loss=line["test_loss"])
            for line in folder.lines("evaluations.jsonl")
        }
        return [
            Record.from_line(line, evaluations.get(line["generation"]))
            for line in folder.lines("generations.jsonl")
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the records in {folder.path} are not those that gradlex wrote ({type(error).__name__}: {error}). "
            "Start again in another folder."
        ) from error
