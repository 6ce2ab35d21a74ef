"""Which selections there are, by name, and how a strategy of your own joins them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from gradlex._text import bind, parse, write
from gradlex.errors import InputError, RunError
from gradlex.selection.batch_lexicase import BatchLexicase
from gradlex.selection.cases import OnCases
from gradlex.selection.dalex import Dalex
from gradlex.selection.downsampled_lexicase import DownsampledLexicase
from gradlex.selection.epsilon_lexicase import EpsilonLexicase
from gradlex.selection.informed_lexicase import InformedLexicase
from gradlex.selection.lexicase import Lexicase
from gradlex.selection.plexicase import Plexicase
from gradlex.selection.protocol import CaseErrors, Choice, Indices, Selection
from gradlex.selection.random import Random, Sgd
from gradlex.selection.strategy import Strategy
from gradlex.selection.tournament import Tournament


@dataclass(frozen=True, kw_only=True)
class SelectionInfo:
    """One selection: its class, its publication, and what it looks at.

    Examples:
        >>> from gradlex.selection import SELECTIONS
        >>> info = SELECTIONS["lexicase"]
        >>> info.title, info.paper
        ('Lexicase', 'Spector 2012; Ding & Spector 2022')
        >>> dict(info.options)
        {'on_all_fail': None, 'depth': None}
        >>> [name for name, info in SELECTIONS.items() if not info.asks]  # these evaluate no case
        ['random', 'sgd']
    """

    strategy: type[Strategy]
    title: str
    paper: str
    sees: str
    """What the selection needs to see of the errors."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options with their defaults."""
        return MappingProxyType({each.name: each.default for each in fields(self.strategy)})

    @property
    def asks(self) -> bool:
        """Whether it looks at any error."""
        return self.sees != "nothing"

    @property
    def exact(self) -> bool:
        """Whether `selection_chances` knows its exact chances, with some of its options at least."""
        return self.strategy().has_exact_chances


SELECTIONS: Mapping[str, SelectionInfo] = {
    "lexicase": SelectionInfo(
        strategy=Lexicase,
        title="Lexicase",
        paper="Spector 2012; Ding & Spector 2022",
        sees="a few cases, in slices, survivors only",
    ),
    "epsilon-lexicase": SelectionInfo(
        strategy=EpsilonLexicase,
        title="Epsilon-lexicase",
        paper="La Cava et al. 2016, 2019",
        sees="a few cases, in slices; all candidates of a slice unless dynamic or with a given epsilon",
    ),
    "batch-lexicase": SelectionInfo(
        strategy=BatchLexicase,
        title="Batch lexicase",
        paper="Aenugu & Spector 2019",
        sees="a few batches of cases, in slices, survivors only",
    ),
    "downsampled-lexicase": SelectionInfo(
        strategy=DownsampledLexicase,
        title="Down-sampled lexicase",
        paper="Hernandez et al. 2019",
        sees="a few cases of a random share, in slices, survivors only",
    ),
    "informed-lexicase": SelectionInfo(
        strategy=InformedLexicase,
        title="Informed lexicase",
        paper="Boldi et al. 2023",
        sees="every case at each refresh; otherwise a few cases of a share, in slices, survivors only",
    ),
    "dalex": SelectionInfo(strategy=Dalex, title="DALex", paper="Ni, Ding & Spector 2024", sees="every case"),
    "plexicase": SelectionInfo(
        strategy=Plexicase, title="Plexicase", paper="Ding, Pantridge & Spector 2023", sees="every case"
    ),
    "tournament": SelectionInfo(
        strategy=Tournament,
        title="Tournament",
        paper="Miller & Goldberg 1995",
        sees="every case of the entrants",
    ),
    "random": SelectionInfo(
        strategy=Random, title="Random", paper="Ding & Spector 2022, Table 2", sees="nothing"
    ),
    "sgd": SelectionInfo(
        strategy=Sgd, title="SGD", paper="the baseline: one candidate, inherited momentum", sees="nothing"
    ),
}


def make_selection(given: str | Selection | Callable[..., Choice], **options: Any) -> Selection:
    """The strategy that a text, an object or a function stands for.

    Args:
        given: A name of `SELECTIONS`, with options in parentheses or without; `module:function` for a strategy of your
            own (importable, also from the current folder); a strategy; or a function `select(cases, errors, rng)` that
            returns a `Choice`.
        options: Options of a name, as keywords.

    Examples:
        >>> from gradlex.selection import make_selection
        >>> make_selection("epsilon-lexicase(epsilon=0.1)")
        EpsilonLexicase(epsilon=0.1, mode='semi-dynamic')
        >>> str(make_selection("tournament", size=2))
        'tournament(size=2)'
        >>> make_selection("tournament(length=2)")
        Traceback (most recent call last):
        gradlex.errors.InputError: selection 'tournament' has no option 'length': it takes size.
    """
    if isinstance(given, str):
        name, own = parse(given)
        text = write(name, {**own, **options})
        made = bind("selection", text, {name: info.strategy for name, info in SELECTIONS.items()})
        return _checked(made() if inspect.isclass(made.func) else made, text)
    if options:
        raise InputError(
            f"options belong to a name, such as 'lexicase', got {given!r:.80}: give it its own options."
        )
    return _checked(given, _place(given))


@dataclass(frozen=True)
class _Own:
    """A strategy of the user's own, whose choices are checked."""

    select: Callable[..., Choice]
    text: str

    def __str__(self) -> str:
        return self.text

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        choice = self.select(cases, errors, rng)
        if not isinstance(choice, Choice):
            raise RunError(
                f"selection {self.text!r} returned {choice!r:.80}: return a gradlex.selection.Choice."
            )
        if choice.index not in errors.candidates:
            raise RunError(
                f"selection {self.text!r} chose {choice.index!r}, which is none of the candidates "
                f"{errors.candidates.tolist()}: choose one of errors.candidates."
            )
        return replace(choice, index=int(choice.index))


def _checked(select: Any, text: str) -> Selection:
    if isinstance(select, Strategy | _Own | OnCases):
        return select
    try:
        inspect.signature(select).bind(None, None, None)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"selection must be a name, a strategy, or a function select(cases, errors, rng) that returns a Choice, got "
            f"{select!r:.80}."
        ) from error
    return _Own(select, text)


def _place(given: Any) -> str:
    """Where a function can be imported from, as text; "given" where it can't."""
    module, name = getattr(given, "__module__", None), getattr(given, "__qualname__", "")
    importable = name.isidentifier() and module not in (None, "__main__") and not inspect.isclass(given)
    return f"{module}:{name}" if importable else "given"
