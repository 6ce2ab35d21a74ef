"""Journal: what the leading process writes while a run goes on, and finds again when it is resumed."""

from __future__ import annotations

import functools
import hashlib
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from gradlex._disk import parse_json
from gradlex._version import __version__
from gradlex.errors import InputError, RunError
from gradlex.population import Parent
from gradlex.recipe import GIVEN
from gradlex.runs._checkpoint import (
    DamagedError,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
    set_aside,
)
from gradlex.runs._folder import RECORDS, RunFolder
from gradlex.runs._no_checkpoint import without_checkpoint
from gradlex.runs._problem import Problem
from gradlex.runs._records import Record, environment, records_of
from gradlex.runs._resume import changed_machine, continued, recipe_checksum, refuse_other_data

_Found = TypeVar("_Found")


class Journal:
    """The records of a run so far, in memory and, with a folder, on disk.

    A record is appended before the checkpoint that follows it; the checkpoint knows how long the records were and
    their checksums, so that resuming cuts what came after it and no line is there twice, missing or changed.
    """

    def __init__(
        self,
        problem: Problem,
        folder: RunFolder | None,
        *,
        resume: bool = False,
        checkpoint_every: int = 1,
        how: Mapping[str, Any] | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._problem, self._folder, self._resume = problem, folder, resume
        self._every, self._how = checkpoint_every, how or {}
        self._notice = notice or (lambda text: None)
        self._started = time.perf_counter()
        self._seconds_before = 0.0
        self._saved = -1
        self._finished = False
        self._digests = {name: hashlib.sha256() for name in RECORDS}
        self.records: list[Record] = []

    def begin(self, first: Parent) -> Parent:
        """Start the run folder, or go on from its newest sound checkpoint; the parent to start from."""
        folder = self._folder
        if folder is None:
            return first
        # What was found before may have changed; from here on the lock keeps others out.
        if not (self._resume and folder.holds_run):
            folder.refuse_if_taken(resume=self._resume)
            self._guard(self._describe)
            return first
        continued(self._problem.recipe, folder)
        refuse_other_data(folder, self._problem.data)
        parent, progress, damaged = self._newest(first)
        self._guard(lambda: self._go_on(folder, progress, damaged))
        self._saved = parent.generation
        self._finished = (
            parent.generation == self._problem.recipe.generations and (folder.path / "result.json").exists()
        )
        if self._finished:
            self._notice(f"all {parent.generation} generations are done already: nothing is trained again.")
        else:
            recipe = self._problem.recipe
            changed = changed_machine(folder, recipe, self._environment) if parent.generation else None
            if changed is not None:
                self._notice(changed)
            self._guard(self._describe)
        return parent

    def add(self, record: Record, parent: Parent, *, last: bool) -> None:
        """Record a generation, and save its parent when it is due."""
        self.records.append(record)
        if self._folder is None:
            return
        folder, evaluated = self._folder, record.evaluation_line()
        lines = {"generations.jsonl": record.line(), "evaluations.jsonl": evaluated}
        for name, line in lines.items():
            if line is not None:
                self._digests[name].update(self._guard(functools.partial(folder.append, name, line)))
        if last or parent.generation % self._every == 0:
            self.save(parent)

    def save(self, parent: Parent) -> None:
        """Write a checkpoint now, unless this generation has one."""
        if self._folder is None or self._saved == parent.generation:
            return
        folder = self._folder
        progress: dict[str, Any] = {
            "bytes": self._guard(lambda: {name: folder.length(name) for name in RECORDS}),
            "sha256": {name: digest.hexdigest() for name, digest in self._digests.items()},
            "seconds": self.seconds,
            "recipe": recipe_checksum(self._problem.recipe),
        }
        self._guard(lambda: save_checkpoint(folder.path / "checkpoint", parent, progress))
        self._saved = parent.generation

    def finish(self, weights: Mapping[str, Callable[[], bytes]], result: dict[str, Any]) -> None:
        """Write the files of final weights, and the result last."""
        if self._folder is not None and not self._finished:
            folder = self._folder
            for name, content in weights.items():
                self._guard(functools.partial(folder.write_bytes, name, content()))
            self._guard(lambda: folder.write_json("result.json", result))

    @property
    def result(self) -> dict[str, Any] | None:
        """What result.json holds of a run that was finished before; None where there is more to do."""
        if self._folder is None or not self._finished:
            return None
        return self._folder.read_json("result.json")

    @property
    def how_to_resume(self) -> str:
        """The end of a message: what to do to go on."""
        if self._folder is None:
            return ""
        recipe = self._problem.recipe
        if GIVEN in (recipe.dataset, recipe.model, recipe.augment):
            return f"; go on with: gradlex.train(..., out={str(self._folder.path)!r}, resume=True)"
        if not self._folder.holds_run:  # the disk refused even its recipe
            return f"; start it again with --resume into {self._folder.path}"
        return f"; go on with: gradlex resume {shlex.quote(str(self._folder.path))}"

    @property
    def seconds(self) -> float:
        """Time spent on the run, in all its sittings."""
        return round(self._seconds_before + time.perf_counter() - self._started, 3)

    @property
    def _environment(self) -> dict[str, Any]:
        """What computes the run in this sitting, and how."""
        return {**environment(self._problem.recipe, self._problem.device), **self._how}

    def _describe(self) -> None:
        assert self._folder is not None
        recipe = self._problem.recipe
        # The environment first: with recipe.json there, all that resuming needs to know is there.
        self._folder.write_json("environment.json", self._environment)
        for name in (
            "result.json",
            "model.safetensors",
            "ema.safetensors",
        ):  # of a run that is being made longer
            self._folder.remove(name)
        stored = {"gradlex": __version__, "recipe": recipe.to_dict(), "data": self._problem.data}
        if not self._folder.holds_run or self._folder.read_json("recipe.json")["recipe"] != stored["recipe"]:
            self._folder.write_json("recipe.json", stored)

    def _newest(self, first: Parent) -> tuple[Parent, dict[str, Any], list[Path]]:
        """The newest sound checkpoint and those that were passed over; what there is instead where there is none."""
        assert self._folder is not None
        found = checkpoints(self._folder.path / "checkpoint")
        inherits = self._problem.recipe.momentum == "inherit"
        damages: list[str] = []
        for place, path in enumerate(reversed(found)):
            try:
                parent, progress = load_checkpoint(path, first, inherits=inherits)
            except DamagedError as damage:  # at most two
                damages.append(str(damage))
                continue
            for text in damages:
                self._notice(f"{text}: it is set aside, and the sound checkpoint {path.name} is used.")
            return parent, progress, found[len(found) - place :]
        if damages:
            raise InputError(
                f"{'; '.join(damages)}; no checkpoint can be used, so this run cannot go on here. Nothing was "
                "changed: start it again in another folder."
            )
        return *without_checkpoint(self._folder, self._problem, first), []

    def _go_on(self, folder: RunFolder, progress: dict[str, Any], damaged: list[Path]) -> None:
        """Take the records up to the checkpoint; only then set aside and cut what came after it."""
        if "recipe" in progress and progress["recipe"] != recipe_checksum(self._problem.recipe):
            raise InputError(
                f"{folder.path / 'recipe.json'} is not what it was when the run's checkpoint was written: bring the "
                "file back, or start again in another folder."
            )
        lengths = progress.get("bytes", dict.fromkeys(RECORDS, 0))
        heads = {name: folder.head(name, lengths[name]) for name in RECORDS}
        for name, head in heads.items():
            self._digests[name].update(head)
            found = self._digests[name].hexdigest()
            if "sha256" in progress and found != progress["sha256"][name]:
                raise InputError(
                    f"{folder.path / name} is not what it was when the run's checkpoint was written: bring the file "
                    "back, or start again in another folder."
                )
        self.records = _records(heads)
        self._seconds_before = progress.get("seconds", 0.0)
        for path in damaged:
            set_aside(path)
        for name in RECORDS:
            folder.cut(name, lengths[name])

    def _guard(self, write: Callable[[], _Found]) -> _Found:
        """Write; if the disk refuses, say which file, what is safe and how to go on."""
        assert self._folder is not None
        try:
            return write()
        except OSError as error:
            done = checkpoints(self._folder.path / "checkpoint")
            safe = f"its checkpoint {done[-1].name} stays" if done else "there was no checkpoint yet"
            raise RunError(
                f"{error.filename or self._folder.path} could not be written: {error.strerror or error}. The run has "
                f"ended and {safe}. Make room or give access{self.how_to_resume}"
            ) from error


def _records(files: Mapping[str, bytes]) -> list[Record]:
    """The records in the two files' lines, whose checksums hold."""
    return records_of(*([parse_json(line) for line in files[name].splitlines()] for name in RECORDS))
