"""Evidence: what the folders of a plan hold. Finished runs stand in arms; the others are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from gradlex.errors import InputError, unknown_name
from gradlex.experiments import EXPERIMENTS, METHODS, Plan
from gradlex.recipe import Momentum, Recipe
from gradlex.report._columns import Column, Setting, columns
from gradlex.report._missing import Missing, missing_lines
from gradlex.report._statistics import Summary, summarize
from gradlex.runs import StoredRun, stored_run

FIGURE2, COMPARE = "figure2", "compare"


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
    failed: Mapping[Column, int]
    """How many runs of a column ended without a result, which no mean can include."""

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
    found = columns(plan)
    finished, missing = list[tuple[Column, StoredRun]](), list[Missing]()
    for column, planned in zip(found, plan.runs, strict=True):
        path = plan.path(planned)
        run = stored_run(path) if (path / "recipe.json").exists() else None
        if run is None or run.result is None:
            missing.append(Missing(column=column, planned=planned, run=run))
            continue
        if run.result.get("test_accuracy") is None:
            raise InputError(f"{path} has no test accuracy to report: its data has no test samples.")
        finished.append((column, run))
    failed = Counter(each.column for each in missing if each.planned.failure is not None)
    return Evidence(
        plan=plan, arms=_arms(plan.name, finished), missing=missing_lines(found, missing), failed=failed
    )


def _arms(experiment: str, finished: Sequence[tuple[Column, StoredRun]]) -> tuple[Arm, ...]:
    runs: dict[Column, dict[int, StoredRun]] = {}
    data: dict[Setting, StoredRun] = {}
    for column, run in finished:
        like = data.setdefault(column.setting, run)
        if like.data["fingerprint"] != run.data["fingerprint"]:
            raise InputError(
                f"{run.path} and {like.path} were trained on different data of the same name: take one of them out of "
                f"{experiment}.json."
            )
        seeds = runs.setdefault(column, {})
        if run.recipe.seed in seeds:
            raise InputError(
                f"{run.path} and {seeds[run.recipe.seed].path} are both {column.title} with the seed "
                f"{run.recipe.seed}: take one of them out of {experiment}.json."
            )
        seeds[run.recipe.seed] = run
    return tuple(Arm(**vars(column), runs=dict(sorted(seeds.items()))) for column, seeds in runs.items())


def arm_order(arm: Arm) -> tuple[int, int, int]:
    """The order of columns: by method, population and momentum."""
    recipe, momenta = arm.recipe, get_args(Momentum)
    number = recipe.generations if METHODS[arm.method].is_sgd else recipe.population
    return list(METHODS).index(arm.method), number or 0, momenta.index(recipe.momentum)
