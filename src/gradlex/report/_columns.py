"""Columns: where the runs of a plan stand in its tables, told by their recipes whether they are finished or not."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath

from gradlex.errors import unknown_name
from gradlex.experiments import METHODS, Plan, Planned, published
from gradlex.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What methods are compared on: a dataset and a model, as they are called in tables."""

    dataset: str
    model: str

    def __str__(self) -> str:
        return f"{self.model} on {self.dataset}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One method on one dataset and model, and what it is called there."""

    setting: Setting
    method: str
    title: str


def columns(plan: Plan) -> list[Column]:
    """The column of each run of a plan, in its order."""
    for planned in plan.runs:
        if planned.method not in METHODS:
            raise unknown_name("method", planned.method, METHODS)
    sizes, momenta = _varied(plan.runs)
    varied = plan.name == "table3" or sizes, plan.name == "table4" or momenta
    return [
        Column(
            setting=_setting(planned.recipe),
            method=planned.method,
            title=_title(plan.name, planned.method, planned.recipe, varied),
        )
        for planned in plan.runs
    ]


def _varied(runs: Sequence[Planned]) -> tuple[bool, bool]:
    """Whether a dataset and model has populations of several sizes, and whether it has several momenta."""
    sizes: dict[tuple[object, ...], set[int | None]] = {}
    momenta: dict[tuple[object, ...], set[str | None]] = {}
    for planned in runs:
        recipe, method = planned.recipe, METHODS[planned.method]
        place = (recipe.dataset, recipe.model, recipe.width)
        if method.matched:  # the population it is equal to is told by its epochs
            sizes.setdefault((*place, method.name), set()).add(recipe.generations)
        elif not method.is_sgd:
            sizes.setdefault(place, set()).add(recipe.population)
            momenta.setdefault(place, set()).add(recipe.momentum)
    return any(len(found) > 1 for found in sizes.values()), any(len(found) > 1 for found in momenta.values())


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
    """The method, with the population and the momentum where these vary."""
    title = METHODS[method].title
    if METHODS[method].matched and varied[0]:
        return f"{title}, {recipe.generations} epochs"
    if METHODS[method].is_sgd or not any(varied):
        return title
    parts = (f"p = {recipe.population}", str(recipe.momentum))
    told = ", ".join(part for part, varies in zip(parts, varied, strict=True) if varies)
    # Tables 3 and 4 are about lexicase alone: its columns carry only what they vary, as in the paper.
    return told if method == "lexicase" and experiment in ("table3", "table4") else f"{title}, {told}"
