"""The folder of a comparison: what it declares, which runs are still to do, and how they are run."""

from __future__ import annotations

import copy
import functools
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from filelock import FileLock

from gradlex._files import read_text, write_atomically
from gradlex.callbacks import Callback
from gradlex.callbacks.callback import LiveRun
from gradlex.errors import InputError
from gradlex.experiments.arm import Arm, write_json
from gradlex.experiments.jobs import Backend, Finished
from gradlex.experiments.methods import Method
from gradlex.recipe import GIVEN, Recipe

_FIXED = ("epochs", "population", "recipe")


def declare(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Write experiment.json, and return what it holds.

    Methods and seeds add to the folder's. What isn't given (None or empty) stays; another number of epochs or
    candidates, or another recipe, raises an error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        path = folder / "experiment.json"
        stored = json.loads(read_text(path)) if path.exists() else {}
        for name in _FIXED:
            if name in stored and given.get(name) not in (None, stored[name]):
                raise InputError(
                    f"{folder} holds a comparison with {_differing(name, stored[name], given[name])}: choose another "
                    "folder, or give the same."
                )
        found = {**given, **stored, **{name: value for name, value in given.items() if value not in (None, "", [])}}
        found["methods"] = list(dict.fromkeys([*stored.get("methods", ()), *given["methods"]]))
        found["seeds"] = sorted({*stored.get("seeds", ()), *given["seeds"]})
        if found != stored:
            write_json(path, found)
    return found


def make_arms(
    methods: Iterable[Method], seeds: Iterable[int], *, epochs: int, population: int, folder: Path
) -> list[Arm]:
    """Every run, seed by seed, so that what finishes first compares all methods."""
    methods = list(methods)
    return [
        Arm(
            method=method,
            seed=seed,
            epochs=method.epochs(epochs, population),
            size=method.size(population),
            folder=(folder / method.name / f"seed{seed}").resolve(),
        )
        for seed in seeds
        for method in methods
    ]


def run_arms(function: Callable[[Arm], Any], arms: Iterable[Arm], backend: Backend) -> Iterator[Finished]:
    """Call the function for each run, and yield each outcome; why one failed is kept as error.txt.

    An InputError ends the comparison: it concerns the other runs as well.
    """
    by_name = {f"{arm.name}, seed {arm.seed}": arm for arm in arms}
    jobs = {name: functools.partial(function, arm) for name, arm in by_name.items()}
    with closing(backend.run(jobs)) as outcomes:
        for finished in outcomes:
            if finished.bad_input:
                raise InputError(f"{finished.name}: {finished.reason}") from RuntimeError(finished.traceback)
            folder = by_name[finished.name].folder
            (folder / "error.txt").unlink(missing_ok=True)
            if finished.reason:
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / "error.txt", (finished.traceback or finished.reason).encode())
            yield finished


def train_arm(
    model: Any, data: Any, base: Recipe, options: Mapping[str, Any], epochs: int, population: int, arm: Arm
) -> dict[str, tuple[bool, bool]]:
    """Train one run by the trainer; of each metric, the primary one first: is higher better, and is it a fraction?"""
    from gradlex.runs import train

    class Register(Callback):
        def on_start(self, run: LiveRun) -> None:
            if not run.history:
                arm.register(run.model.state_dict(), run.data.get("fingerprint"))

    recipe = arm.method.recipe(base.replace(seed=arm.seed), epochs=epochs, population=population)
    given = {"progress": False, **options, "callbacks": [*options.get("callbacks", ()), Register()]}
    run = train(copy.deepcopy(model), data, recipe, out=arm.folder, resume=True, **given)
    return {measure.name: (measure.higher_is_better, measure.fraction) for measure in run.task.measures}


def commands(arms: Iterable[Arm], flags: Mapping[str, Any], folder: Path) -> list[str]:
    """One shell command for each run, for a scheduler's array job."""
    if GIVEN in flags.values():
        objects = [name for name, value in flags.items() if value == GIVEN]
        raise InputError(f"a command needs text, and {', '.join(objects)} is an object: give its name.")
    words = ["gradlex", "compare"]
    for name, value in flags.items():
        if value not in (None, False):
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    own = [["--methods", arm.name, "--seeds", str(arm.seed), "--out", str(folder)] for arm in arms]
    return [shlex.join([*words, *flags_of_run]) for flags_of_run in own]


def name_of(function: Any) -> str:
    """`module:name` of a function, which a command can import again."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    if module == "__main__":
        module = Path(getattr(sys.modules["__main__"], "__file__", "<")).stem
    if module is None or "<" in f"{module}{name}" or "." in name:
        raise InputError(f"a command needs a function that a module holds, got {function!r:.80}: write it in a file.")
    return f"{module}:{name}"


def _differing(name: str, stored: Any, given: Any) -> str:
    """How two values differ; recipes by their fields."""
    if not isinstance(stored, dict):
        return f"{name}={stored}, and now it is {given}"
    names = [field for field in {**stored, **given} if stored.get(field) != given.get(field)]
    return "; ".join(f"{field}={stored.get(field)!r}, and now it is {given.get(field)!r}" for field in names)
