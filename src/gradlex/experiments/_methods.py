"""The methods that experiments compare: each is a set of changes to one recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradlex._checks import keyword_options
from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.selection import SELECTIONS

POPULATION = 4  # of the paper

EXPECTED_CASES = 1_000
"""Random cases per generation that decide the chances of `expected`: all of them would cost as much as training."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method: its name, the title it has in tables, and what it changes in a recipe.

    Examples:
        >>> from gradlex.experiments import METHODS
        >>> METHODS["lexicase"].changes
        {'selection': 'lexicase'}
        >>> METHODS["sgd-matched"].title
        'SGD, equal samples'
        >>> [name for name, method in METHODS.items() if method.averages][:2]  # no selection
        ['average', 'average-outer-0.5']
    """

    name: str
    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    matched: bool = False
    """SGD for as many epochs as the populations have generations, so that both train on as many samples."""
    equal: bool = False
    """A population, or SWA, that trains on as many samples as plain SGD: as many generations as it has epochs."""
    tries: bool = False
    """As many separate runs as a population has candidates, each with a share of the samples and a setting of its own;
    the validation part picks the best: what a person would do instead."""
    offered: bool = True
    """Whether the command lists it; the others stay known because stored results name them."""

    @property
    def is_sgd(self) -> bool:
        """Whether it trains one network."""
        return bool(self.changes["selection"] == "sgd")

    @property
    def averages(self) -> bool:
        """Whether it takes the mean of all candidates, without any selection."""
        return self.changes.get("promotion") == "average"

    @property
    def evaluates_cases(self) -> bool:
        """Whether candidates are evaluated on cases."""
        return SELECTIONS[self.changes["selection"]].asks and not self.averages

    @property
    def selection_options(self) -> frozenset[str]:
        """The options of its selection strategy that it takes."""
        if self.averages:
            return frozenset()
        taken = frozenset(keyword_options(SELECTIONS[self.changes["selection"]].strategy))
        # The chances of `expected` are exact over all its cases: they have no depth.
        return taken - {"depth"} if self.changes.get("promotion") == "expected" else taken

    @property
    def fields(self) -> frozenset[str]:
        """The recipe's own fields that only some methods take, and this one does."""
        own = {"promotion_cases"} if self.changes.get("promotion") == "expected" else set[str]()
        own |= {"outer_nesterov"} if "outer_momentum" in self.changes else set()
        own |= {"branch_at", "tail", "tail_options", "tail_mean"} if "branch_at" in self.changes else set()
        own |= {"parts", "vary"} if not self.is_sgd else set()
        own |= {"cases", "held_out"} if self.evaluates_cases else set()
        return frozenset(own)


_TRIED = {"lr": (1.0, 0.5, 2.0), "weight_decay": (5e-4, 2e-4, 1e-3, 1e-4)}
"""Factors of the learning rate and weight decays that separate runs take in turn: twelve different settings."""
_VALIDATION = 0.1

_SURVIVE = {"selection": "lexicase", "selection_options": {"on_all_fail": "survive"}}
_LOSSES = {"task_options": {"case_error": "loss"}}
_BRANCHED = {"branch_at": 0.75, "tail": "constant", "tail_mean": True}
_VARIED = {
    **_BRANCHED,
    "vary": {"augment": "crop4,flip|crop4,flip,cutout8", "weight_decay": "2e-4|5e-4|1e-3", "lr": "0.5|1|2"},
    "inherit_variation": True,
}
_EXPECTED = {"selection": "lexicase", "promotion": "expected", "promotion_cases": EXPECTED_CASES}
_AVERAGE = {"selection": "lexicase", "promotion": "average"}
# The rates were chosen on held-out training images: benchmarks/outer_rates.py.
_HALF = {"outer_momentum": 0.5, "outer_lr": 1.0}
_NINE = {"outer_momentum": 0.9, "outer_lr": 1.0}

_METHODS = (
    Method(name="sgd", title="SGD", changes={"selection": "sgd"}),
    Method(name="sgd-matched", title="SGD, equal samples", changes={"selection": "sgd"}, matched=True),
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
    Method(
        name="average-outer-0.9", title="average, outer 0.9", changes={**_AVERAGE, **_NINE}, offered=False
    ),
    Method(name="expected", title="lexicase, expected", changes=_EXPECTED),
    Method(name="expected-outer-0.5", title="lexicase, expected, outer 0.5", changes={**_EXPECTED, **_HALF}),
    Method(
        name="expected-outer-0.9",
        title="lexicase, expected, outer 0.9",
        changes={**_EXPECTED, **_NINE},
        offered=False,
    ),
    Method(
        name="survivors",
        title="lexicase, survivors",
        changes={"selection": "lexicase", "promotion": "survivors"},
    ),
    Method(name="lexicase-survive", title="lexicase, survive", changes=_SURVIVE),
    Method(
        name="epsilon-lexicase",
        title="epsilon-lexicase on losses",
        changes={"selection": "epsilon-lexicase", **_LOSSES},
    ),
    Method(
        name="batch-lexicase",
        title="batch lexicase on losses",
        changes={"selection": "batch-lexicase", **_LOSSES},
    ),
    Method(name="swa", title="SWA", changes={"selection": "sgd", **_BRANCHED}, equal=True),
    Method(name="sgd-best", title="best of p SGD runs", changes={"selection": "sgd"}, equal=True, tries=True),
    Method(name="branched-average", title="branched average", changes={**_AVERAGE, **_BRANCHED}, equal=True),
    Method(
        name="branched-expected",
        title="branched expected",
        changes={**_SURVIVE, **_BRANCHED, "promotion": "expected", "promotion_cases": EXPECTED_CASES},
        equal=True,
    ),
    Method(
        name="branched-lexicase", title="branched lexicase", changes={**_SURVIVE, **_BRANCHED}, equal=True
    ),
    Method(
        name="branched-random",
        title="branched random",
        changes={"selection": "random", **_BRANCHED},
        equal=True,
    ),
    Method(name="varied-lexicase", title="varied lexicase", changes={**_SURVIVE, **_VARIED}, equal=True),
    Method(
        name="varied-truncation",
        title="varied truncation",
        changes={"selection": "tournament", **_VARIED},
        equal=True,
    ),
    Method(
        name="varied-random", title="varied random", changes={"selection": "random", **_VARIED}, equal=True
    ),
)

METHODS = {method.name: method for method in _METHODS}

OFFERED = tuple(method.name for method in _METHODS if method.offered)

_SHARED_FIELDS = frozenset(name for method in _METHODS for name in method.fields)
_DEFAULTS = Recipe()

OWN_FIELDS = (
    frozenset(name for method in _METHODS for name in method.changes)
    - _SHARED_FIELDS
    - {"selection_options", "task_options"}
)
"""The recipe's fields that methods differ by, but for their options."""


def check_options(shared: Recipe, methods: Sequence[str]) -> None:
    """Refuse an option that none of these methods takes."""
    chosen = [METHODS[name] for name in methods]
    options = {option for method in chosen for option in method.selection_options}
    fields = {name for method in chosen for name in method.fields}
    given = {name for name in _SHARED_FIELDS if getattr(shared, name) != getattr(_DEFAULTS, name)}
    for name in sorted({*shared.selection_options} - options | given - fields):
        raise InputError(f"{name} is not an option of {', '.join(methods)}: leave it out.")


def method_recipe(name: str, base: Recipe, *, epochs: int) -> Recipe:
    """The recipe of one method, where SGD has `epochs` and a population of p has p + 1 times as many generations.

    An option reaches only the methods that take it, where it replaces the method's own value.
    """
    method = METHODS[name]
    changes: dict[str, Any] = {each: getattr(_DEFAULTS, each) for each in _SHARED_FIELDS}
    changes |= method.changes
    changes |= {
        each: getattr(base, each) for each in method.fields if getattr(base, each) != getattr(_DEFAULTS, each)
    }
    given = {
        option: value
        for option, value in base.selection_options.items()
        if option in method.selection_options
    }
    changes["selection_options"] = {**method.changes.get("selection_options", {}), **given}
    kept = {
        option: value
        for option, value in base.task_options.items()
        if method.evaluates_cases or option != "case_error"
    }
    changes["task_options"] = {**kept, **method.changes.get("task_options", {})}
    if method.is_sgd:
        changes |= {"population": None, "momentum": None}
    once = method.equal or (method.is_sgd and not method.matched)
    factor = 1 if once else (base.population or POPULATION) + 1
    return base.replace(**changes, generations=epochs * factor)


def tried(name: str, recipe: Recipe, population: int) -> list[Recipe]:
    """The runs that a method's recipe stands for: itself, or one for each setting that is tried."""
    if not METHODS[name].tries:
        return [recipe]
    return [
        recipe.replace(
            generations=max(1, recipe.require("generations") // population),
            lr=recipe.lr * _TRIED["lr"][index % len(_TRIED["lr"])],
            weight_decay=_TRIED["weight_decay"][index % len(_TRIED["weight_decay"])],
            validation_fraction=recipe.validation_fraction or _VALIDATION,
        )
        for index in range(population)
    ]
