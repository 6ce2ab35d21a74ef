"""The methods that experiments compare: each is a set of changes to one recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradlex.errors import InputError, unknown_name
from gradlex.recipe import Recipe

POPULATION = 4  # of the paper

EXPECTED_CASES = 1_000
"""Random cases a generation that decide the chances of `expected`: all of them would cost as much as the training."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method by its name, the title it has in tables, and what it changes in a recipe."""

    name: str
    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    matched: bool = False
    """SGD for as many epochs as the populations have generations, so that both train on as many samples."""

    @property
    def is_sgd(self) -> bool:
        """Whether it trains one network."""
        return bool(self.changes["selection"] == "sgd")


_OUTER = {"outer_momentum": 0.9, "outer_lr": 0.4}

_METHODS = (
    Method(name="sgd", title="SGD", changes={"selection": "sgd"}),
    Method(
        name="sgd-matched",
        title="SGD, equal samples",
        changes={"selection": "sgd", "weight_decay": 1e-4},
        matched=True,
    ),
    Method(
        name="sgd-matched-5e-4",
        title="SGD, equal samples, decay 5e-4",
        changes={"selection": "sgd", "weight_decay": 5e-4},
        matched=True,
    ),
    Method(name="random", title="random", changes={"selection": "random"}),
    Method(name="tournament", title="tournament", changes={"selection": "tournament"}),
    Method(name="lexicase", title="lexicase", changes={"selection": "lexicase"}),
    Method(name="average", title="average", changes={"selection": "lexicase", "promotion": "average"}),
    Method(
        name="average-outer",
        title="average, outer step",
        changes={"selection": "lexicase", "promotion": "average", **_OUTER},
    ),
    Method(
        name="expected",
        title="lexicase, expected",
        changes={"selection": "lexicase", "promotion": "expected", "promotion_cases": EXPECTED_CASES},
    ),
    Method(
        name="expected-outer",
        title="lexicase, expected, outer step",
        changes={
            "selection": "lexicase",
            "promotion": "expected",
            "promotion_cases": EXPECTED_CASES,
            **_OUTER,
        },
    ),
    Method(
        name="survivors",
        title="lexicase, survivors",
        changes={"selection": "lexicase", "promotion": "survivors"},
    ),
)

METHODS = {method.name: method for method in _METHODS}


def method_recipe(name: str, base: Recipe, *, epochs: int, samples: int | None = None) -> Recipe:
    """The recipe of one method, where SGD has `epochs` and a population of p has p + 1 times as many generations.

    `samples`, where it is known, bounds the cases that `expected` looks at.
    """
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    method = METHODS[name]
    changes = dict(method.changes)
    population = base.population or POPULATION
    single = method.is_sgd and not method.matched
    if method.is_sgd:
        changes |= {"population": None, "momentum": None}
    if samples is not None and "promotion_cases" in changes:
        changes["promotion_cases"] = min(changes["promotion_cases"], samples)
    return base.replace(**changes, generations=epochs if single else epochs * (population + 1))


def check_methods(names: tuple[str, ...]) -> None:
    """Refuse a method that there is not, or that is named twice."""
    for name in names:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
        if names.count(name) > 1:
            raise InputError(f"method {name} is named {names.count(name)} times: once is enough.")
