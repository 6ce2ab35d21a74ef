"""Evidence: what the folders of a plan hold. Finished runs stand in arms; the others are named."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Any, get_args

from gradlex.errors import InputError, unknown_name
from gradlex.experiments import EXPERIMENTS, METHODS, Plan, published
from gradlex.recipe import Momentum, Recipe
from gradlex.report._missing import Missing, missing_lines
from gradlex.report._statistics import Summary, summarize
from gradlex.runs import StoredRun, stored_run

FIGURE2, COMPARE = "figure2", "compare"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What methods are compared on: a dataset and a model, as they are called in tables."""

    dataset: str
    model: str

    def __str__(self) -> str:
        return f"{self.model} on {self.dataset}"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One column of a table: the finished runs of a method on one dataset and model, by seed."""

    setting: Setting
    method: str
    title: str
    runs: Mapping[int, StoredRun]

    @property
    def recipe(self) -> Recipe:
        """What the runs have in common; the seed is the first one's."""
        return next(iter(self.runs.values())).recipe

    @property
    def accuracies(self) -> dict[int, float]:
        """Final test accuracy in per cent, by seed."""
        return self.percentages("test_accuracy")

    def percentages(self, measure: str) -> dict[int, float]:
        """One of the result's accuracies in per cent, by seed."""
        return {seed: 100 * results[measure] for seed, results in self.results.items()}

    @property
    def results(self) -> dict[int, dict[str, Any]]:
        """What result.json of each run holds, by seed."""
        return {seed: run.result for seed, run in self.runs.items() if run.result is not None}

    @property
    def summary(self) -> Summary:
        """Mean and deviation of the final test accuracy in per cent."""
        return summarize(list(self.accuracies.values()))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A plan, its finished runs, and lines that name what is not finished."""

    plan: Plan
    arms: tuple[Arm, ...]
    missing: tuple[str, ...]

    @property
    def settings(self) -> list[Setting]:
        """The datasets and models that have finished runs, in the plan's order."""
        return list(dict.fromkeys(arm.setting for arm in self.arms))

    @property
    def missing_notes(self) -> tuple[str, ...]:
        """The same lines as notes below a table."""
        return tuple(f"Not finished: {line}" for line in self.missing)

    def on(self, setting: Setting) -> dict[str, Arm]:
        """The arms of one setting by their titles, in the order of the methods."""
        found = [arm for arm in self.arms if arm.setting == setting]
        return {arm.title: arm for arm in sorted(found, key=arm_order)}


def gather(plan: Plan) -> Evidence:
    """Read all runs of a plan."""
    known = (*EXPERIMENTS, COMPARE)
    if plan.name not in known:
        raise unknown_name("experiment", plan.name, known)
    finished, missing = [], []
    for planned in plan.runs:
        if planned.method not in METHODS:
            raise unknown_name("method", planned.method, METHODS)
        path = plan.path(planned)
        run = stored_run(path) if (path / "recipe.json").exists() else None
        if run is None or run.result is None:
            missing.append(Missing(method=planned.method, run=run))
            continue
        if run.result.get("test_accuracy") is None:
            raise InputError(f"{path} has no test accuracy to report: its data has no test samples.")
        finished.append((planned.method, run))
    return Evidence(plan=plan, arms=_arms(plan.name, finished), missing=missing_lines(plan, missing))


def _arms(experiment: str, finished: Sequence[tuple[str, StoredRun]]) -> tuple[Arm, ...]:
    populations = [run.recipe for method, run in finished if not METHODS[method].is_sgd]
    varied = (
        experiment == "table3" or len({recipe.population for recipe in populations}) > 1,
        experiment == "table4" or len({recipe.momentum for recipe in populations}) > 1,
    )
    runs: dict[tuple[Setting, str, str], dict[int, StoredRun]] = {}
    data: dict[Setting, StoredRun] = {}
    for method, run in finished:
        like = data.setdefault(_setting(run.recipe), run)
        if like.data["fingerprint"] != run.data["fingerprint"]:
            raise InputError(
                f"{run.path} and {like.path} were trained on different data of the same name: take one of them out of "
                f"{experiment}.json."
            )
        title = _title(experiment, method, run.recipe, varied)
        seeds = runs.setdefault((_setting(run.recipe), method, title), {})
        if run.recipe.seed in seeds:
            raise InputError(
                f"{run.path} and {seeds[run.recipe.seed].path} are both {title} with the seed {run.recipe.seed}: "
                f"take one of them out of {experiment}.json."
            )
        seeds[run.recipe.seed] = run
    return tuple(
        Arm(setting=setting, method=method, title=title, runs=dict(sorted(seeds.items())))
        for (setting, method, title), seeds in runs.items()
    )


def arm_order(arm: Arm) -> tuple[int, int, int]:
    """The order of columns: by method, population and momentum."""
    recipe, momenta = arm.recipe, get_args(Momentum)
    number = recipe.generations if METHODS[arm.method].is_sgd else recipe.population
    return list(METHODS).index(arm.method), number or 0, momenta.index(recipe.momentum)


def _setting(recipe: Recipe) -> Setting:
    spelling = _spellings()
    # Only the last part of a path, of either kind of system: where the data lay says nothing to a reader.
    dataset = PureWindowsPath(recipe.dataset).name
    model = spelling.get(recipe.model, recipe.model)
    width = "" if recipe.width == 1 else f", width {recipe.width:g}"
    return Setting(dataset=spelling.get(dataset, dataset), model=f"{model}{width}")


@functools.cache
def _spellings() -> dict[str, str]:
    """The paper's spelling of the names that a recipe may have."""
    names = [name for cell in published("table1") for name in (cell.dataset, cell.model)]
    return {name.lower().replace("-", ""): name for name in names}


def _title(experiment: str, method: str, recipe: Recipe, varied: tuple[bool, bool]) -> str:
    """The column a run stands in: its method, with the population and the momentum where these vary."""
    title = METHODS[method].title
    if METHODS[method].matched and varied[0]:  # equal to which population, is told by its epochs
        return f"{title}, {recipe.generations} epochs"
    if METHODS[method].is_sgd or not any(varied):
        return title
    parts = (f"p = {recipe.population}", str(recipe.momentum))
    told = ", ".join(part for part, varies in zip(parts, varied, strict=True) if varies)
    # Tables 3 and 4 are about lexicase alone: its columns carry only what they vary, as in the paper.
    return told if method == "lexicase" and experiment in ("table3", "table4") else f"{title}, {told}"
