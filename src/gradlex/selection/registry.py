"""Which selections there are, by name, and how a strategy of your own joins them."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gradlex._text import bind, parse, write
from gradlex.errors import InputError, RunError
from gradlex.selection.batch_lexicase import BatchLexicase
from gradlex.selection.dalex import Dalex
from gradlex.selection.downsampled_lexicase import DownsampledLexicase
from gradlex.selection.epsilon_lexicase import EpsilonLexicase
from gradlex.selection.informed_lexicase import InformedLexicase
from gradlex.selection.lexicase import Lexicase
from gradlex.selection.plexicase import Plexicase
from gradlex.selection.protocol import CaseErrors, Choice, Indices, Rng, Selection
from gradlex.selection.random_choice import Random, Sgd
from gradlex.selection.strategy import Strategy
from gradlex.selection.tournament import Tournament

SELECTIONS: Mapping[str, type[Strategy]] = {
    strategy.name: strategy
    for strategy in (
        *(Lexicase, EpsilonLexicase, BatchLexicase, DownsampledLexicase, InformedLexicase, Dalex, Plexicase),
        *(Tournament, Random, Sgd),
    )
}


def make_selection(given: str | Selection | Callable[..., Choice], **options: Any) -> Selection:
    """The strategy that a text, an object or a function stands for.

    Args:
        given: A name of `SELECTIONS`, with options in parentheses or without; `module:function` for a strategy of your
            own (importable, also from the current folder); a strategy; or a function `select(cases, errors, rng)` that
            returns a `Choice`.
        options: More options of a name.

    Examples:
        >>> from gradlex.selection import make_selection
        >>> make_selection("epsilon-lexicase(epsilon=0.1)")
        EpsilonLexicase(epsilon=0.1, mode='semi-dynamic')
        >>> str(make_selection("tournament", size=2))
        'tournament(size=2)'
    """
    if not isinstance(given, str):
        if options:
            raise InputError(
                f"options belong to a name, such as 'lexicase', got {given!r:.80}: give it its own options."
            )
        return _checked(given, _place(given))
    text = given
    if options:
        name, own = parse(given)
        text = write(name, {**own, **options})
    if ":" not in parse(text)[0]:
        return _named(text)
    made = bind("selection", text, {})
    return _checked(made() if inspect.isclass(made.func) else made, text)


@functools.cache
def _named(text: str) -> Strategy:
    made: Strategy = bind("selection", text, SELECTIONS)()
    return made


@dataclass(frozen=True)
class OwnSelection:
    """A strategy of the user's own, whose choices are checked."""

    select: Callable[..., Choice]
    text: str

    def __str__(self) -> str:
        return self.text

    def __call__(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        """Choose as the user's function does."""
        choice = self.select(cases, errors, rng)
        if not isinstance(choice, Choice):
            raise RunError(f"selection {self.text!r} returned {choice!r:.80}: return a gradlex.selection.Choice.")
        if choice.index not in errors.candidates:
            raise RunError(
                f"selection {self.text!r} chose {choice.index!r}, which is none of the candidates "
                f"{errors.candidates.tolist()}: choose one of errors.candidates."
            )
        shares = choice.shares
        if not shares.keys() <= {*errors.candidates} or not math.isclose(sum(shares.values()), 1, rel_tol=1e-6):
            raise RunError(f"selection {self.text!r} gave the weights {shares}: candidates' weights must sum to 1.")
        return replace(choice, index=int(choice.index))


def _checked(select: Any, text: str) -> Selection:
    if type(select).__module__.startswith("gradlex.selection."):
        made: Selection = select
        return made
    try:
        inspect.signature(select).bind(None, None, None)
    except (TypeError, ValueError) as error:
        raise InputError(
            "selection must be a name, a strategy, or a function select(cases, errors, rng) that returns a Choice, got "
            f"{select!r:.80}."
        ) from error
    return OwnSelection(select, text)


def _place(given: Any) -> str:
    """Where a function can be imported from, as text; "given" where it can't."""
    module, name = getattr(given, "__module__", None), getattr(given, "__qualname__", "")
    return f"{module}:{name}" if name.isidentifier() and module not in (None, "__main__") else "given"
