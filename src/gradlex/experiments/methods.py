"""The methods that are compared: each is a set of changes to one recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradlex.errors import InputError, unknown_name
from gradlex.recipe import PRESETS, Recipe

POPULATION = 4  # the paper's


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method: its name, its title in tables, and what it changes in a recipe.

    Examples:
        >>> from gradlex.experiments import METHODS
        >>> METHODS["lexicase-survive"].changes
        {'selection': 'lexicase(on_all_fail=survive)'}
        >>> [METHODS[name].epochs(20, population=4) for name in ("sgd", "sgd-matched", "lexicase", "swa")]
        [20, 100, 100, 20]
    """

    name: str
    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    matched: bool = False
    """SGD on as many samples as the populations train on."""
    on_losses: bool = False
    """In a classification by the trainer, the error of a case is its loss. (In your own loop, you give the errors.)"""

    @property
    def is_sgd(self) -> bool:
        """Whether it trains one network."""
        return bool(self.changes.get("selection") == "sgd")

    def size(self, population: int) -> int:
        """The number of candidates where populations have this many."""
        return 1 if self.is_sgd else int(self.changes.get("population", population))

    def epochs(self, epochs: int, population: int) -> int:
        """How many generations it runs where SGD has `epochs`.

        A population of p has p + 1 times as many (the paper's rule); a method that branches late has as many as SGD.
        """
        if "branch_at" in self.changes or (self.is_sgd and not self.matched):
            return epochs
        return epochs * ((population if self.matched else self.size(population)) + 1)

    def recipe(self, base: Recipe, *, epochs: int, population: int) -> Recipe:
        """The base with this method's changes, where SGD has `epochs` and populations have this many candidates.

        What the base says about the late branch, the tail and the optimizer's state goes to the methods that have it.
        """
        if base.selection is not None or base.promotion != "winner":
            raise InputError("the methods decide selection and promotion: leave them out of the recipe.")
        unused = {name for name in _LATE if name not in self.changes} | ({"momentum_state"} if self.is_sgd else set())
        given = {name: getattr(base, name) for name in base.model_fields_set - unused}
        own = {name: value for name, value in self.changes.items() if name not in given or name not in _BRANCHED}
        length, size = self.epochs(epochs, population), self.size(population)
        return Recipe(**{**given, **own, "epochs": length, "population": size})


_LATE = {name: PRESETS["branched"][name] for name in ("branch_at", "tail", "tail_mean")}
_BRANCHED = {**_LATE, "momentum_state": "inherit"}
_SURVIVE = "lexicase(on_all_fail=survive)"


def _method(
    name: str, title: str, selection: str, *, matched: bool = False, on_losses: bool = False, **changes: Any
) -> Method:
    changes = {"selection": selection, **changes}
    return Method(name=name, title=title, changes=changes, matched=matched, on_losses=on_losses)


_METHODS = (
    _method("sgd", "SGD", "sgd"),
    _method("sgd-matched", "SGD with as many samples", "sgd", matched=True),
    _method("random", "random", "random"),
    _method("tournament", "tournament", "tournament"),
    _method("lexicase", "lexicase", "lexicase"),
    _method("lexicase-p2", "lexicase, p = 2", "lexicase", population=2),
    _method("lexicase-p6", "lexicase, p = 6", "lexicase", population=6),
    _method("lexicase-p8", "lexicase, p = 8", "lexicase", population=8),
    _method("lexicase-no-momentum", "lexicase, no momentum", "lexicase", momentum=0.0),
    _method("lexicase-inherit", "lexicase, momentum inherited", "lexicase", momentum_state="inherit"),
    _method("lexicase-survive", "lexicase, survive", _SURVIVE),
    _method("epsilon-lexicase", "epsilon-lexicase on losses", "epsilon-lexicase", on_losses=True),
    _method("average", "average", "lexicase", promotion="average"),
    _method("expected", "lexicase, expected", "lexicase", promotion="expected"),
    _method("swa", "SWA", "sgd", **_LATE),
    _method("branched-average", "branched average", "lexicase", promotion="average", **_BRANCHED),
    _method("branched-expected", "branched expected", _SURVIVE, promotion="expected", **_BRANCHED),
    _method("branched-lexicase", "branched lexicase", _SURVIVE, **_BRANCHED),
    _method("branched-random", "branched random", "random", **_BRANCHED),
)

METHODS: Mapping[str, Method] = {method.name: method for method in _METHODS}


def find_method(given: str | Method) -> Method:
    """The method of a name, or a method of your own."""
    if isinstance(given, Method):
        return given
    if given not in METHODS:
        raise unknown_name("method", given, METHODS)
    return METHODS[given]
