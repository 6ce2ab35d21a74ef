"""The methods that experiments compare: each is a set of changes to one recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.selection import SELECTIONS

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

    @property
    def averages(self) -> bool:
        """Whether it takes the mean of all candidates, and asks no selection."""
        return self.changes.get("promotion") == "average"

    @property
    def asks(self) -> bool:
        """Whether candidates are asked about cases."""
        return SELECTIONS[self.changes["selection"]].asks and not self.averages

    @property
    def options(self) -> tuple[str, ...]:
        """The options of its selection, its promotion and its outer step."""
        selection = () if self.averages else tuple(SELECTIONS[self.changes["selection"]].options)
        promotion = _PROMOTION_OPTIONS.get(self.changes.get("promotion", "winner"), ())
        return *selection, *promotion, *(_OUTER_OPTIONS if "outer_momentum" in self.changes else ())


_PROMOTION_OPTIONS = {"expected": ("promotion_cases",), "survivors": ("promotion_depth",)}
_OUTER_OPTIONS = ("outer_nesterov",)

_EXPECTED = {"selection": "lexicase", "promotion": "expected", "promotion_cases": EXPECTED_CASES}
_AVERAGE = {"selection": "lexicase", "promotion": "average"}  # which asks no selection
# The rates were chosen on held-out training pictures: benchmarks/outer_rates.py.
_HALF = {"outer_momentum": 0.5, "outer_lr": 1.0}
_NINE = {"outer_momentum": 0.9, "outer_lr": 1.0}

_METHODS = (
    Method(name="sgd", title="SGD", changes={"selection": "sgd"}),
    Method(
        name="sgd-matched",
        title="SGD, equal samples",
        changes={"selection": "sgd"},
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
    Method(name="average", title="average", changes=_AVERAGE),
    Method(name="average-outer-0.5", title="average, outer 0.5", changes={**_AVERAGE, **_HALF}),
    Method(name="average-outer-0.9", title="average, outer 0.9", changes={**_AVERAGE, **_NINE}),
    Method(name="expected", title="lexicase, expected", changes=_EXPECTED),
    Method(name="expected-outer-0.5", title="lexicase, expected, outer 0.5", changes={**_EXPECTED, **_HALF}),
    Method(name="expected-outer-0.9", title="lexicase, expected, outer 0.9", changes={**_EXPECTED, **_NINE}),
    Method(
        name="survivors",
        title="lexicase, survivors",
        changes={"selection": "lexicase", "promotion": "survivors"},
    ),
)

_OPTIONS = {
    *(option for info in SELECTIONS.values() for option in info.options),
    *(option for options in _PROMOTION_OPTIONS.values() for option in options),
    *_OUTER_OPTIONS,
}
_DEFAULTS = Recipe()

METHODS = {method.name: method for method in _METHODS}

OWN_FIELDS = frozenset(name for method in _METHODS for name in method.changes if name not in method.options)
"""The recipe's fields that methods differ by, but for their options, which may be given."""


def refuse_unused_options(shared: Recipe, methods: Sequence[str]) -> None:
    """Refuse an option that none of these methods has."""
    taken = {option for name in methods for option in METHODS[name].options}
    for option in sorted(_OPTIONS - taken):
        if getattr(shared, option) != getattr(_DEFAULTS, option):
            raise InputError(f"{option} is no option of {', '.join(methods)}: leave it out.")


def method_recipe(name: str, base: Recipe, *, epochs: int) -> Recipe:
    """The recipe of one method, where SGD has `epochs` and a population of p has p + 1 times as many generations.

    An option reaches only the methods that take it, and goes before the number that a method has by itself.
    """
    method = METHODS[name]
    own = {option: getattr(base, option) for option in method.options}
    given = {option: value for option, value in own.items() if value != getattr(_DEFAULTS, option)}
    left_out: dict[str, Any] = {option: getattr(_DEFAULTS, option) for option in _OPTIONS - own.keys()}
    left_out |= {} if method.asks else {"case_error": "correct"}
    left_out |= {"population": None, "momentum": None} if method.is_sgd else {}
    factor = 1 if method.is_sgd and not method.matched else (base.population or POPULATION) + 1
    return base.replace(**{**left_out, **method.changes, **given}, generations=epochs * factor)
