"""compare: does it help on yours? The same seeds, tests and tables for a trainer's recipe and for your own loop."""

from __future__ import annotations

import functools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from torch import nn

from gradlex._checks import Count, Natural, check
from gradlex.errors import InputError, unknown_name
from gradlex.experiments import Arm, Method
from gradlex.experiments.arm import run_own
from gradlex.experiments.comparison import commands, declare, make_arms, name_of, run_arms, train_arm
from gradlex.experiments.jobs import Backend, Finished, make_backend, portable
from gradlex.experiments.methods import POPULATION, find_method
from gradlex.recipe import Recipe
from gradlex.report.decisions import Decision, decisions
from gradlex.report.frames import Study, studies
from gradlex.report.summary import outcome
from gradlex.report.tables import Table, results_table


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a comparison found so far. Printed, it is the verdict and the tables.

    Attributes:
        study: The folder's runs, and what was declared.
        failures: The runs that failed in this call; each has a `name`, a `reason` and a `traceback`.
        commands: One shell command for each run that isn't finished, if they were asked for.
    """

    study: Study
    failures: tuple[Finished, ...] = ()
    commands: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The folder."""
        return self.study.path

    @property
    def frame(self) -> pd.DataFrame:
        """One row per run, as `gradlex.results` returns them."""
        return self.study.runs

    @property
    def decisions(self) -> list[Decision]:
        """The comparisons and their answers, the primary one first."""
        return decisions(self.study)

    @property
    def verdict(self) -> str:
        """A sentence for each comparison."""
        return "\n".join(decision.sentence for decision in self.decisions)

    def table(self) -> Table:
        """What each method reaches, and what it costs."""
        return results_table(self.study)

    def write_page(self, page: Path | str | None = None) -> Path:
        """Write one HTML page with figures and tables (default: report.html in the folder)."""
        from gradlex.report.page import write_experiment_page

        return write_experiment_page(self.path, page)

    def __str__(self) -> str:
        return "\n".join([outcome(self.study), *(f"Failed: {each.name}: {each.reason}" for each in self.failures)])


def compare(
    experiment: Callable[[Arm, int], float | Mapping[str, float]] | nn.Module | str | None = None,
    data: Any = None,
    recipe: Recipe | None = None,
    *,
    methods: Sequence[str | Method] = ("sgd", "sgd-matched", "random", "lexicase"),
    seeds: Sequence[int] = (0, 1, 2),
    epochs: int | None = None,
    population: int | None = None,
    out: Path | str | None = None,
    jobs: int = 1,
    backend: str | Backend = "processes",
    pairs: Sequence[tuple[str, str] | str] | None = None,
    metric: str | None = None,
    higher_is_better: bool | None = None,
    title: str = "",
    progress: bool = True,
    commands_only: bool = False,
    **options: Any,
) -> Comparison:
    """Compare methods of selection, on your own training loop or by the trainer.

    Each method runs once for each seed. Plain SGD trains for `epochs`; populations of p, and SGD with as many samples,
    for p + 1 times as many, as in the paper. Call it again with the same `out` to continue: finished runs are kept,
    and methods and seeds may be added.

    Args:
        experiment: A function `experiment(method, seed)` around your own loop, which makes its population by
            `method.population(model, optimizer)`, trains it for `method.epochs` generations, and returns the accuracy
            on test data or `{"accuracy": ..., "loss": ...}`. Or what `gradlex.train` trains: a module, or a name.
        data: What `gradlex.train` takes, or a name.
        recipe: The settings that all runs share. The methods change the selection in it.
        methods: Names of `gradlex.experiments.METHODS`.
        seeds: The seeds of the runs, such as `range(5)`.
        epochs: Epochs of plain SGD.
        population: The number of candidates p (default: 4).
        out: A folder for the runs (default: a temporary one).
        jobs: How many run at a time, each in a process of its own with one thread. A script needs
            `if __name__ == "__main__":`.
        backend: `"processes"`, `"serial"` (in this process), or `"ray"`, with options as in `"ray(num_gpus=1)"`.
        pairs: The comparisons to test, such as `[("lexicase", "sgd")]`, the primary one first. Declare them before the
            runs: each one more demands a larger difference (default: each method against SGD with as many samples).
        metric: What is compared (default: accuracy, or the task's primary metric).
        higher_is_better: Whether a higher value is a better one (default: True, or as the task says).
        title: What the comparison is called.
        progress: Print a line for each run.
        commands_only: Start nothing; `commands` of the result has a shell command for each run.
        options: More recipe fields, or options of `gradlex.train` such as `test` and `device`.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> x = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> def experiment(method, seed):
        ...     model = torch.nn.Linear(4, 2)
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     population = method.population(model, optimizer)
        ...     for epoch in range(method.epochs):
        ...         for candidate in population.candidates(60):
        ...             for batch in torch.from_numpy(candidate.indices).split(5):
        ...                 optimizer.zero_grad()
        ...                 torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        ...                 optimizer.step()
        ...         population.select(lambda cases: model(x[cases]).argmax(dim=1) != y[cases], 60)
        ...     return float((model(x[60:]).argmax(dim=1) == y[60:]).float().mean())
        >>> arms = ["sgd", "lexicase"]
        >>> found = gradlex.compare(experiment, methods=arms, epochs=1, backend="serial", progress=False)
        >>> len(found.frame)
        6
    """
    chosen = [find_method(method) for method in _listed("methods", methods)]
    seeds = [check("seeds", Natural, seed) for seed in _listed("seeds", seeds)]
    names = [method.name for method in chosen]
    own = callable(experiment) and not isinstance(experiment, nn.Module)
    if own:
        if data is not None or (recipe or Recipe()) != Recipe() or options or epochs is None:
            raise InputError(
                "an experiment of your own needs epochs, the number that plain SGD trains for, and takes no data, "
                "recipe or options of the trainer."
            )
        base, metric, higher_is_better = Recipe(), metric or "accuracy", higher_is_better is None or higher_is_better
    else:
        from gradlex.data.datasets import DATASETS, OWN
        from gradlex.data.load import kind_of

        base, experiment, data = _taken_apart(experiment, data, recipe, options)
        info = DATASETS[base.dataset] if data is None and kind_of(base.dataset) == "public" else OWN
        epochs = (base.epochs or info.epochs) if epochs is None else epochs
    epochs = check("epochs", Count, epochs)
    size = check("population", Count, (base.population or POPULATION) if population is None else population)
    for method in chosen:  # raises an error for what doesn't fit, before anything is written
        method.recipe(base, epochs=epochs, population=size)
    backend = make_backend(backend, jobs)
    shared = {name: base.to_dict()[name] for name in base.model_fields_set - {"epochs", "population", "seed"}}
    plan = {
        "title": title or ("comparison" if out is None else ""),
        "methods": names,
        "seeds": seeds,
        "pairs": [_pair(pair, names) for pair in pairs or ()],
        "metric": metric,
        "higher_is_better": higher_is_better,
        "epochs": epochs,
        "population": size,
        "recipe": shared,
    }
    folder = Path(tempfile.mkdtemp(prefix="gradlex-") if out is None else out)
    metric = declare(folder, plan)["metric"]
    arms = make_arms(chosen, seeds, epochs=epochs, population=size, folder=folder)
    missing = [arm for arm in arms if not (arm.folder / "result.json").exists()]
    if commands_only:
        others = [name for name, value in options.items() if value is not None and name != "device"]
        if others:
            raise InputError(f"gradlex compare has no flag for {', '.join(others)}: leave it out to get commands.")
        flags = {"experiment": name_of(experiment)} if own else {**shared, "device": options.get("device")}
        listed = commands(missing, {**flags, "epochs": epochs, "population": size}, folder)
        return Comparison(study=studies(folder)[0], commands=tuple(listed))
    function: Callable[[Arm], Any] = (
        functools.partial(run_own, portable(experiment), metric)  # type: ignore[arg-type]
        if own
        else functools.partial(train_arm, experiment, data, base, options, epochs, size)
    )
    say = Console(stderr=True, quiet=not progress, highlight=False).print
    if not missing:
        say(f"All {len(arms)} runs are finished: nothing was trained.")
    failures = []
    for number, finished in enumerate(run_arms(function, missing, backend), start=len(arms) - len(missing) + 1):
        if finished.reason:
            failures.append(finished)
        elif not own:  # the task knows which metric is its primary one, and how to read it
            metric = metric or next(iter(finished.value))
            if metric not in finished.value:
                raise unknown_name("metric", metric, finished.value)
            better, fraction = finished.value[metric]
            better = better if higher_is_better is None else higher_is_better
            declare(folder, plan | {"metric": metric, "higher_is_better": better, "fraction": fraction})
        failed = f" failed: {finished.reason}" if finished.reason else ""
        say(f"{number} of {len(arms)} runs: {finished.name}{failed}")
    study = studies(folder)[0]
    if out is None:
        weakref.finalize(study, shutil.rmtree, folder, ignore_errors=True)
    return Comparison(study=study, failures=tuple(failures))


def _taken_apart(model: Any, data: Any, recipe: Recipe | None, options: dict[str, Any]) -> tuple[Recipe, Any, Any]:
    """The recipe with all names and fields; model and data if they are objects. Other objects stay in `options`."""
    from gradlex.runs.problem import Given

    objects = {name: options.pop(name, None) for name in ("augment", "task")}
    fields = {name: options.pop(name) for name in [*options] if name in Recipe.model_fields}
    given = Given.of(model, data, recipe, fields, **objects)
    options |= {name: getattr(given, name) for name in objects}
    return given.recipe, given.model, given.data


def _listed(name: str, given: Any) -> list[Any]:
    found = [] if isinstance(given, str | int) else list(given)
    if not found or len({str(each) for each in found}) < len(found):
        example = "range(3)" if name == "seeds" else "['sgd', 'lexicase']"
        raise InputError(f"{name} must be a list without repetition, such as {example}, got {given!r:.80}.")
    return found


def _pair(given: tuple[str, str] | str, methods: Sequence[str]) -> list[str]:
    pair = given.split(":") if isinstance(given, str) else list(given)
    if len(pair) != 2 or not set(pair) <= set(methods):
        raise InputError(
            f"a pair names two of the methods ({', '.join(methods)}), as in 'lexicase:sgd', got {given!r:.80}."
        )
    return pair
