"""Journal: the callback that writes a run folder, and finds in it where an interrupted run continues."""

from __future__ import annotations

import functools
import hashlib
import math
import platform
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from gradlex import _devices
from gradlex._version import __version__
from gradlex.callbacks import Callback, LiveRun, Record, plain_metrics
from gradlex.errors import InputError, RunError
from gradlex.population import Parent, State, capture, copy
from gradlex.recipe import GIVEN, REVISION, Recipe
from gradlex.runs._checkpoint import (
    DamagedError,
    checkpoints,
    generation_of,
    load_checkpoint,
    save_checkpoint,
    set_aside,
)
from gradlex.runs._execution import Execution
from gradlex.runs._folder import RECORDS, RunFolder
from gradlex.runs._predictions import PREDICTIONS
from gradlex.runs._problem import Problem
from gradlex.runs._resume import (
    changed_machine,
    first_checkpoint,
    path_from_run,
    recipe_checksum,
    stored_environment,
    stored_execution,
)
from gradlex.runs._stored_run import parse_records, stored_result, stored_run
from gradlex.runs._weights import load_weights, read_weights

_Found = TypeVar("_Found")
BEST = "best"
"""The slot of the weights that `keep="best"` keeps."""
WEIGHTS = ("model.safetensors", "ema.safetensors")


class Journal(Callback):
    """Writes what happens into the run folder, whose lock the caller holds.

    A record is appended before the checkpoint that follows it; the checkpoint knows how long the records were and
    their checksums, so that resuming cuts what came after it and no line is there twice, missing or changed.
    """

    def __init__(
        self,
        problem: Problem,
        folder: RunFolder,
        *,
        how: Mapping[str, Any],
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._problem, self._folder, self._how, self._notice = problem, folder, how, notice
        self._every = how["checkpoint_every"]
        self._started = time.perf_counter()
        self._seconds_before = 0.0
        self._saved = -1
        self._digests = {name: hashlib.sha256() for name in RECORDS}
        self.finished: dict[str, Any] | None = None
        """What result.json holds of a run that was finished before; None where there is more to do."""
        self.records: list[Record] = []
        self.stopped: str | None = None
        """Why a callback has stopped the run, where it did so before its result was written."""

    def begin(self, first: Parent, *, resume: bool, begin_with: Path | None = None) -> Parent:
        """Start the run folder, or find its newest sound checkpoint; the parent to start from."""
        folder, recipe = self._folder, self._problem.recipe
        if not (resume and folder.holds_run):
            if begin_with is not None:
                return self._begin_with(first, RunFolder(begin_with))
            self._guard(self._describe)
            return first
        parent, progress, damaged = self._newest(first)
        self._guard(lambda: self._continue(progress, damaged))
        if parent.generation == 0 and begin_with is not None:  # it was interrupted while it began
            return self._begin_with(first, RunFolder(begin_with))
        self._how = {**self._how, **self._lasting(parent)}
        self._saved = parent.generation
        if (folder.path / "result.json").exists():
            result = stored_result(folder)
            if result["generations"] == parent.generation and (
                parent.generation == recipe.generations or result.get("stopped")
            ):
                for name in WEIGHTS:
                    if (folder.path / name).exists():
                        read_weights(folder.path / name)  # refused where it is damaged
                self.finished = result
                self._notice(_done(result))
                return parent
        self.stopped = progress.get("stopped")
        changed = changed_machine(folder, recipe, self._environment) if parent.generation else None
        if changed is not None:
            self._notice(changed)
        self._guard(self._describe)
        return parent

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """Append the record, and save the parent when it is due."""
        self._append(record)
        done = run.parent.generation
        if done == run.recipe.generations or done % self._every == 0 or done in self._how["keep_checkpoints"]:
            self._save(run.parent)

    def _append(self, record: Record) -> None:
        lines = {"generations.jsonl": record.line(), "evaluations.jsonl": record.evaluation_line()}
        for name, line in lines.items():
            if line is not None:
                write = functools.partial(self._folder.append, name, line)
                self._digests[name].update(self._guard(write))

    def on_stop(self, run: LiveRun) -> None:
        """Save the parent again, with why a callback has stopped the run: a kill must not make it forgotten."""
        self._saved = -1
        self._save(run.parent, run.stopped)

    def on_end(self, run: LiveRun) -> None:
        """Save where an interrupted run stands; its result is written by `finish`."""
        if run.ended == "interrupted":
            self._save(run.parent, run.stopped)

    def _save(self, parent: Parent, stopped: str | None = None) -> None:
        """Write a checkpoint now, unless this generation has one."""
        if self._saved == parent.generation:
            return
        folder = self._folder
        progress: dict[str, Any] = {
            "bytes": self._guard(lambda: {name: folder.length(name) for name in RECORDS}),
            "sha256": {name: digest.hexdigest() for name, digest in self._digests.items()},
            "seconds": self.seconds,
            "recipe": recipe_checksum(self._problem.recipe.to_dict()),
            "stopped": stopped,
        }
        keep = self._how["keep_checkpoints"]
        self._guard(lambda: save_checkpoint(folder.path / "checkpoint", parent, progress, keep=keep))
        self._saved = parent.generation

    def finish(self, files: Mapping[str, bytes], result: Mapping[str, Any]) -> dict[str, Any]:
        """Write the final weights and predictions, and the result with their checksums last; returns the result."""
        if self.finished is not None:
            return self.finished
        checksums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        for name, data in files.items():
            self._guard(functools.partial(self._folder.write_bytes, name, data))
        whole = {**result, "seconds": self.seconds, "sha256": checksums}
        plain = {**whole, "metrics": plain_metrics(whole["metrics"])}
        self._guard(lambda: self._folder.write_json("result.json", plain))
        return whole

    @property
    def path(self) -> Path:
        """The run folder."""
        return self._folder.path

    @property
    def how_to_resume(self) -> str:
        """The end of a message: what to do to continue."""
        recipe, path = self._problem.recipe, self._folder.path
        if GIVEN in recipe.to_dict().values():
            return f"; resume with: gradlex.train(..., out={str(path)!r}, resume=True)"
        if not self._folder.holds_run:  # the disk refused even its recipe
            return f"; start it again with --resume into {path}"
        return f"; resume with: gradlex resume {shlex.quote(str(path))}"

    @property
    def seconds(self) -> float:
        """Time spent on the run, in all its sittings."""
        return round(self._seconds_before + time.perf_counter() - self._started, 3)

    @property
    def _environment(self) -> dict[str, Any]:
        """What computes the run in this sitting, and how."""
        return {**environment(self._problem.recipe, self._problem.device), **self._how}

    def _describe(self) -> None:
        recipe, folder = self._problem.recipe, self._folder
        # The environment first: with recipe.json there, all that resuming needs to know is there.
        folder.write_json("environment.json", self._environment)
        for name in ("result.json", *WEIGHTS, PREDICTIONS):  # of a run that is being made longer
            folder.remove(name)
        data = {**self._problem.data, "path_from_run": path_from_run(recipe, folder)}
        stored = {"gradlex": __version__, "revision": REVISION, "recipe": recipe.to_dict(), "data": data}
        if not folder.holds_run or folder.read_json("recipe.json")["recipe"] != stored["recipe"]:
            folder.write_json("recipe.json", stored)

    def _lasting(self, parent: Parent) -> dict[str, Any]:
        """What holds for a run however it is continued: what it began with, and which checkpoints are kept."""
        earlier = stored_environment(self._folder)
        had = Execution(**stored_execution(self._folder)).keep_checkpoints
        kept = {*self._how["keep_checkpoints"], *had}
        begun = earlier.get("begin_with") if parent.generation else None
        return {"keep_checkpoints": sorted(kept), "begin_with": begun}

    def _begin_with(self, first: Parent, other: RunFolder) -> Parent:
        """Another run's parent from before the branch, and its records so far."""
        recipe = self._problem.recipe
        path = first_checkpoint(recipe, other)
        try:
            inherits = recipe.momentum_at(generation_of(path)) == "inherit"
            parent, progress = load_checkpoint(path, first, inherits=inherits)
            _check_progress(progress, path)
        except DamagedError as damage:
            raise InputError(f"{damage}: this run cannot begin with it.") from damage
        heads = {name: other.head(name, progress["bytes"][name]) for name in RECORDS}
        for name, head in heads.items():
            if hashlib.sha256(head).hexdigest() != progress["sha256"][name]:
                raise InputError(
                    f"{other.path / name} is not what it was when the checkpoint of generation {parent.generation} was "
                    "written: this run cannot begin with it."
                )
        self._guard(self._describe)
        self.records = parse_records({name: head.splitlines() for name, head in heads.items()}, other.path)
        for record in self.records:
            self._append(record)
        self._seconds_before = progress["seconds"]
        # The mean of a tail and the like begin at the branch; a moving average and the best go back to the start.
        kept = (("ema", recipe.ema is not None), (BEST, recipe.keep == "best"))
        slots = {name: parent.slots[name] for name, wanted in kept if wanted}
        parent = replace(parent, slots=slots, memory={})
        self._save(parent)
        return parent

    def _newest(self, first: Parent) -> tuple[Parent, dict[str, Any], list[Path]]:
        """The newest sound checkpoint and those that were passed over; what there is instead where there is none."""
        found = checkpoints(self._folder.path / "checkpoint")
        damages: list[str] = []
        for number, path in enumerate(reversed(found)):
            try:
                inherits = self._problem.recipe.momentum_at(generation_of(path)) == "inherit"
                parent, progress = load_checkpoint(path, first, inherits=inherits)
                _check_progress(progress, path)
            except DamagedError as damage:
                damages.append(str(damage))
                continue
            for text in damages:
                self._notice(
                    f"{text}: it is set aside, and the sound checkpoint of generation {generation_of(path)} is used."
                )
            return parent, progress, found[len(found) - number :]
        if damages:
            raise InputError(
                f"{'; '.join(damages)}; no checkpoint can be used, so this run cannot be resumed. Nothing was "
                "changed: start it again in another folder."
            )
        return *self._without_checkpoint(first), []

    def _without_checkpoint(self, first: Parent) -> tuple[Parent, dict[str, Any]]:
        """The parent to continue from, and the progress it stands for; nothing is changed.

        A finished run is given back as its files have it, and one that can have had no checkpoint yet begins again. A
        run that has done more is refused: beginning again would erase it.
        """
        folder = self._folder
        if (folder.path / "result.json").exists():
            return self._finished_before()
        done = max(_count_lines(folder.path / name) for name in RECORDS)
        every = stored_execution(folder).get("checkpoint_every", 1)
        # A run that begins with another has that one's records a moment before its own first checkpoint.
        began = (
            stored_environment(folder).get("begin_with") is not None and done <= self._problem.recipe.branch
        )
        if done and not began and (not isinstance(every, int) or done > every):
            raise InputError(
                f"{folder.path} has the records of {done} generations but no checkpoint, though one was due every "
                f"{every}: restore its folder checkpoint, or start again in another folder. Nothing was changed."
            )
        return first, {}

    def _finished_before(self) -> tuple[Parent, dict[str, Any]]:
        """The end of a finished run: its weights from their files, its records as they are."""
        folder, recipe = self._folder, self._problem.recipe
        result = stored_run(folder.path).result
        assert result is not None
        done, asked = result["generations"], recipe.require("generations")
        if done != asked and not result.get("stopped"):
            raise InputError(
                f"{folder.path} is a finished run of {done} generations without a checkpoint, asked for {asked}: it "
                "cannot be made longer. Restore its folder checkpoint, or start again in another folder."
            )
        names = WEIGHTS[: 1 if recipe.ema is None else 2]
        missing = [name for name in names if not (folder.path / name).exists()]
        if missing:
            raise InputError(
                f"{_done(result)} {folder.path} has no network to give back, without a checkpoint or "
                f"{' and '.join(missing)}; result.json has the outcome."
            )
        states = {name: self._weights(name) for name in names}
        slots = {"ema": states["ema.safetensors"]} if "ema.safetensors" in states else {}
        whole = {name: folder.length(name) for name in RECORDS}
        parent = Parent(generation=done, state=states["model.safetensors"], slots=slots)
        return parent, {"bytes": whole, "seconds": result["seconds"]}

    def _weights(self, name: str) -> State:
        model = self._problem.model
        load_weights(model, self._folder.path / name)
        return copy(capture(model))

    def _continue(self, progress: dict[str, Any], damaged: list[Path]) -> None:
        """Take the records up to the checkpoint; only then set aside and cut what came after it."""
        folder = self._folder
        stored = folder.read_json("recipe.json")["recipe"]
        if "recipe" in progress and progress["recipe"] != recipe_checksum(stored):
            raise InputError(
                f"{folder.path / 'recipe.json'} is not what it was when the run's checkpoint was written: restore the "
                "file, or start again in another folder."
            )
        lengths = progress.get("bytes", dict.fromkeys(RECORDS, 0))
        heads = {name: folder.head(name, lengths[name]) for name in RECORDS}
        for name, head in heads.items():
            self._digests[name].update(head)
            if "sha256" in progress and self._digests[name].hexdigest() != progress["sha256"][name]:
                raise InputError(
                    f"{folder.path / name} is not what it was when the run's checkpoint was written: restore the file, "
                    "or start again in another folder."
                )
        self.records = parse_records({name: head.splitlines() for name, head in heads.items()}, folder.path)
        self._seconds_before = progress.get("seconds", 0.0)
        for path in damaged:
            set_aside(path)
        for name in RECORDS:
            folder.cut(name, lengths[name])

    def _guard(self, write: Callable[[], _Found]) -> _Found:
        """Write; if the disk refuses, say which file, what is safe and how to continue."""
        try:
            return write()
        except OSError as error:
            done = checkpoints(self._folder.path / "checkpoint")
            safe = (
                f"its checkpoint of generation {generation_of(done[-1])} is kept"
                if done
                else "there was no checkpoint yet"
            )
            raise RunError(
                f"{error.filename or self._folder.path} could not be written: {error.strerror or error}. The run has "
                f"stopped and {safe}. Make room or give access{self.how_to_resume}"
            ) from error


def _done(result: Mapping[str, Any]) -> str:
    """What a person should know who resumes a finished run."""
    done, stopped = result["generations"], result.get("stopped")
    if stopped:
        return f"the run was stopped after {done} generations ({stopped}): nothing is trained again."
    return f"all {done} generations are done: nothing is trained again."


def _check_progress(progress: dict[str, Any], path: Path) -> None:
    """Refuse the progress of a checkpoint that the journal does not write."""
    lengths, sums = progress.get("bytes"), progress.get("sha256")
    sound = {
        "bytes": isinstance(lengths, dict) and all(_is_length(lengths.get(name)) for name in RECORDS),
        "sha256": isinstance(sums, dict) and all(isinstance(sums.get(name), str) for name in RECORDS),
        "seconds": type(progress.get("seconds")) in (int, float) and math.isfinite(progress["seconds"]),
        "recipe": isinstance(progress.get("recipe"), str),
        "stopped": isinstance(progress.get("stopped"), str | None),
    }
    for name, is_sound in sound.items():
        if not is_sound:
            raise DamagedError(f"{path} cannot be read (its progress has {name} {progress.get(name)!r:.80})")


def _is_length(value: Any) -> bool:
    return type(value) is int and value >= 0


def environment(recipe: Recipe, device: torch.device) -> dict[str, Any]:
    """What computed the run."""
    return {
        "gradlex": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processor": _cpu_name(),
        "device": str(device),
        "accelerator": _devices.name(device),
        "threads": recipe.threads,
        "precision": recipe.precision,
    }


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:  # not Linux
        names = []
    return names[0] if names else platform.processor()


def _count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
