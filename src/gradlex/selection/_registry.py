"""What selection methods there are, by name, and how a strategy of one's own joins them. Free of torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from gradlex._checks import check_options, keyword_options
from gradlex._objects import load_object
from gradlex.errors import InputError, RunError, failing_as, unknown_name
from gradlex.selection._batch_lexicase import batch_lexicase
from gradlex.selection._dalex import dalex, dalex_parents
from gradlex.selection._downsampled_lexicase import (
    downsampled_lexicase,
    downsampled_lexicase_draws,
    downsampled_lexicase_parents,
    downsampled_lexicase_probabilities,
)
from gradlex.selection._epsilon_lexicase import (
    epsilon_lexicase,
    epsilon_lexicase_parents,
    epsilon_lexicase_probabilities,
)
from gradlex.selection._informed_lexicase import informed_lexicase, informed_lexicase_parents
from gradlex.selection._lexicase import lexicase
from gradlex.selection._lexicase_parents import lexicase_parents
from gradlex.selection._plexicase import plexicase, plexicase_probabilities
from gradlex.selection._pools import Probabilities, lexicase_probabilities
from gradlex.selection._protocol import CaseErrors, Choice, Indices, Selection
from gradlex.selection._random import random, random_probabilities
from gradlex.selection._tournament import tournament, tournament_probabilities

_NOTHING = "nothing"
_WANTED = "a function select(cases, errors, rng, *, options) that returns a gradlex.selection.Choice"


@dataclass(frozen=True, kw_only=True)
class SelectionInfo:
    """One method: its function, its publication, and what it looks at.

    Examples:
        >>> from gradlex.selection import SELECTIONS
        >>> info = SELECTIONS["lexicase"]
        >>> info.paper
        'Spector 2012; Ding & Spector 2022'
        >>> dict(info.options)
        {'on_all_fail': 'random', 'depth': None}
        >>> [name for name, info in SELECTIONS.items() if not info.asks]  # these evaluate no case
        ['random', 'sgd']
    """

    name: str
    strategy: Callable[..., Choice]
    """`strategy(cases, errors, rng, **options)`."""
    paper: str
    sees: str
    """What the method needs to see of the errors."""
    parents: Callable[..., Indices] | None = None
    """`parents(table, k, rng, **options)`: many from one table. None: by the probabilities, or one after another."""
    probabilities: Callable[..., Probabilities | None] | None = None
    """`probabilities(table, **options)`: the exact chances. None: there is no exact or closed form."""
    draws: Callable[..., Indices] | None = None
    """As `parents`, but independent of each other, where those of one call are not."""
    ordered: bool = False
    """Whether it looks at the cases in the order it is given, so that weights and priorities have a meaning."""
    own: bool = False
    """Whether it is a strategy of the user's own rather than one of `SELECTIONS`."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the method with their defaults, from the strategy's signature."""
        return MappingProxyType(keyword_options(self.strategy))

    @property
    def asks(self) -> bool:
        """Whether the method looks at any error."""
        return self.sees != _NOTHING

    @property
    def exact(self) -> bool:
        """Whether `selection_chances` knows the method (with some of its options at least)."""
        return self.probabilities is not None

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse options that the method does not take, lacks, or may not have."""
        try:
            check_options(f"selection {self.name!r}", self.strategy, options)
        except NameError as error:
            raise InputError(
                f"selection {self.name!r}: its annotations cannot be read: {error}. Import what they name when the "
                "program runs too, not only for type checking."
            ) from error


_INFOS = (
    SelectionInfo(
        name="lexicase",
        strategy=lexicase,
        paper="Spector 2012; Ding & Spector 2022",
        sees="a few cases, in slices, survivors only",
        parents=lexicase_parents,
        probabilities=lexicase_probabilities,
        ordered=True,
    ),
    SelectionInfo(
        name="epsilon-lexicase",
        strategy=epsilon_lexicase,
        paper="La Cava et al. 2016, 2019",
        sees="a few cases, in slices; all candidates of a slice unless dynamic or with a fixed epsilon",
        parents=epsilon_lexicase_parents,
        probabilities=epsilon_lexicase_probabilities,
        ordered=True,
    ),
    SelectionInfo(
        name="batch-lexicase",
        strategy=batch_lexicase,
        paper="Aenugu & Spector 2019",
        sees="a few batches of cases, in slices, survivors only",
        ordered=True,
    ),
    SelectionInfo(
        name="downsampled-lexicase",
        strategy=downsampled_lexicase,
        paper="Hernandez et al. 2019",
        sees="a few cases of a random share, in slices, survivors only",
        parents=downsampled_lexicase_parents,
        probabilities=downsampled_lexicase_probabilities,
        draws=downsampled_lexicase_draws,
        ordered=True,
    ),
    SelectionInfo(
        name="informed-lexicase",
        strategy=informed_lexicase,
        paper="Boldi et al. 2023",
        sees="every case at each refresh; otherwise a few cases of a share, in slices, survivors only",
        parents=informed_lexicase_parents,
    ),
    SelectionInfo(
        name="dalex",
        strategy=dalex,
        paper="Ni, Ding & Spector 2024",
        sees="every case",
        parents=dalex_parents,
    ),
    SelectionInfo(
        name="plexicase",
        strategy=plexicase,
        paper="Ding, Pantridge & Spector 2023",
        sees="every case",
        probabilities=plexicase_probabilities,
    ),
    SelectionInfo(
        name="tournament",
        strategy=tournament,
        paper="Miller & Goldberg 1995",
        sees="every case of the entrants",
        probabilities=tournament_probabilities,
    ),
    SelectionInfo(
        name="random",
        strategy=random,
        paper="Ding & Spector 2022, Table 2",
        sees=_NOTHING,
        probabilities=random_probabilities,
    ),
    SelectionInfo(
        name="sgd",
        strategy=random,
        paper="the baseline: one candidate, inherited momentum",
        sees=_NOTHING,
    ),
)

SELECTIONS = {info.name: info for info in _INFOS}


def find(method: str | Callable[..., Choice]) -> SelectionInfo:
    """The method of a name, or one made for a strategy of your own: a function, or `module:function`."""
    if isinstance(method, str):
        if method in SELECTIONS:
            return SELECTIONS[method]
        if ":" not in method:
            raise unknown_name("selection", method, SELECTIONS)
        return _own(load_object(method, "selection", wanted=_WANTED), method)
    name = f"{getattr(method, '__module__', None)}:{getattr(method, '__qualname__', None)}"
    return _own(method, name)


def bind(method: str | Callable[..., Choice], /, **options: Any) -> Selection:
    """The method with its options bound; unknown names, options and bad values are refused.

    `method` is a name of `SELECTIONS`, `module:function` (importable, also from the current folder), or a function of
    your own: `select(cases, errors, rng, *, own options) -> Choice`. Options that are not given have the defaults of
    the strategy's signature.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, bind
        >>> select = bind("tournament", tournament_size=2)
        >>> select(np.arange(2), TableErrors([[0, 1], [0, 0]]), np.random.default_rng(0)).index
        1
        >>> bind("tournament", size=2)
        Traceback (most recent call last):
        gradlex.errors.InputError: selection 'tournament' has no option 'size': it takes tournament_size.
    """
    info = find(method)
    info.check(options)
    bound = partial(info.strategy, **options)
    return partial(_checked_choice, select=bound, name=info.name) if info.own else bound


def _own(strategy: Any, name: str) -> SelectionInfo:
    if not inspect.isroutine(strategy):
        raise InputError(f"selection {name!r} is {strategy!r:.80}: give {_WANTED}.")
    own = SelectionInfo(
        name=name, strategy=strategy, paper="your own", sees="whatever it asks", ordered=True, own=True
    )
    parameters = inspect.signature(strategy).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    anything = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(positional) > 3 or (len(positional) < 3 and not anything):
        raise InputError(
            f"selection {name!r} has the signature {inspect.signature(strategy)}: it must take cases, errors and rng, "
            "and its options behind a *."
        )
    return own


def _checked_choice(
    cases: Indices, errors: CaseErrors, rng: np.random.Generator, *, select: Selection, name: str
) -> Choice:
    """What a strategy of the user's own has chosen, if that is a candidate."""
    with failing_as(f"selection {name!r}"):
        choice = select(cases, errors, rng)
    if not isinstance(choice, Choice):
        raise RunError(f"selection {name!r} returned {choice!r:.80}: return a gradlex.selection.Choice.")
    if choice.index not in errors.candidates:
        raise RunError(
            f"selection {name!r} chose {choice.index!r}, which is none of the candidates "
            f"{errors.candidates.tolist()}: choose one of errors.candidates."
        )
    return replace(choice, index=int(choice.index))
