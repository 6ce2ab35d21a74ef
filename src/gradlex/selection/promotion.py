"""What becomes the parent: the winner alone, or a mean of several candidates.

- winner: the chosen candidate (Ding & Spector 2022);
- average: every candidate alike, which is local SGD (Stich 2019; Lin et al. 2020); no case is evaluated;
- expected: each candidate by its chance to be chosen, the expected parent of the strategy; unpublished as far as we
  know. Exact up to a fixed amount of work, estimated beyond it (see `selection_chances`).

A promotion wraps a strategy, so that its Choice carries the weights; a single candidate needs none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from gradlex._checks import bad_value
from gradlex.errors import InputError
from gradlex.selection.cases import OnCases
from gradlex.selection.protocol import CaseErrors, Choice, Floats, Indices, Selection, worst_for_nan
from gradlex.selection.random import Random, Sgd
from gradlex.selection.registry import SELECTIONS
from gradlex.selection.strategy import Strategy
from gradlex.selection.table import chances_of

Promotion: TypeAlias = Literal["winner", "average", "expected"]


def promoting(promotion: Promotion, strategy: Selection) -> Selection:
    """A strategy whose Choices carry the weights of the parent.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Lexicase, TableErrors, promoting
        >>> select, errors = promoting("expected", Lexicase()), TableErrors([[0, 0, 1], [1, 1, 0]])
        >>> choice = select(np.arange(3), errors, np.random.default_rng(0))
        >>> {index: round(weight, 3) for index, weight in choice.weights.items()}
        {0: 0.667, 1: 0.333}
    """
    if promotion not in get_args(Promotion):
        raise bad_value("promotion", Promotion, promotion)
    if promotion == "winner" or isinstance(
        strategy, Sgd
    ):  # one candidate is the parent, whatever the promotion
        return strategy
    if isinstance(strategy, OnCases):
        return replace(strategy, selection=promoting(promotion, strategy.selection))
    if promotion == "average" or isinstance(
        strategy, Random
    ):  # a random choice's expected parent is the average
        return _Average(strategy, promotion)
    if not (isinstance(strategy, Strategy) and strategy.has_exact_chances):
        exact = ", ".join(name for name, info in SELECTIONS.items() if info.exact)
        raise InputError(
            f"promotion 'expected' needs a selection with exact probabilities ({exact}; epsilon-lexicase unless its "
            f"epsilon is the pool's own), got {str(strategy)!r}: use one of them, or promotion 'average'."
        )
    return _Expected(strategy)


@dataclass(frozen=True)
class _Average:
    strategy: Selection
    reason: str

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        pool = errors.candidates
        if len(pool) == 1:
            return self.strategy(cases, errors, rng)
        return _weighted(pool, np.ones(len(pool)), Choice(index=0, reason=self.reason, memory=errors.memory))


@dataclass(frozen=True)
class _Expected:
    strategy: Strategy

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        pool = errors.candidates
        if len(pool) == 1:
            return self.strategy(cases, errors, rng)
        # In the order of the data, in which epsilons and weights are given.
        chances = chances_of(self.strategy, worst_for_nan(errors.matrix()), getattr(errors, "order", None))
        reason = "expected" if chances.exact else "estimated"
        kept = Choice(index=0, reason=reason, cases_used=len(cases), memory=errors.memory)
        return _weighted(pool, chances.values, kept)


def _weighted(pool: Indices, chances: Floats, choice: Choice) -> Choice:
    """The choice with its weights, those above 0 only; the largest, or the first of several, gives the index."""
    shares = chances / chances.sum()
    weights = {int(i): float(share) for i, share in zip(pool, shares, strict=True) if share > 0}
    return replace(choice, index=int(pool[shares.argmax()]), weights=weights)
