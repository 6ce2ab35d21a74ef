"""What becomes the parent: the winner, or a weighted mean of the candidates.

- winner: the chosen candidate (Ding & Spector 2022);
- average: every candidate alike, which is local SGD (Stich 2019; Lin et al. 2020); no case is asked;
- expected: each candidate by its exact chance to be chosen, the expected parent of the strategy; unpublished as
  far as we know;
- survivors: the pool that lexicase has left after some cases, alike.

A promotion wraps a strategy, so that its Choice carries the weights; a single candidate needs none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gradlex.errors import InputError
from gradlex.recipe import Promotion
from gradlex.selection._pools import Probabilities
from gradlex.selection._probabilities import selection_probabilities
from gradlex.selection._protocol import CaseErrors, Choice, ErrorTable, Indices, Selection
from gradlex.selection._registry import SELECTIONS, bind

_WITH_DEPTH = ("lexicase", "downsampled-lexicase", "informed-lexicase")


def promoting(
    promotion: Promotion,
    method: str,
    *,
    promotion_cases: int | None = None,
    promotion_depth: int | None = None,
    **options: Any,
) -> Selection:
    """The method with its options bound, and Choices that say what becomes the parent.

    `promotion_cases` random cases decide the chances of "expected" (None: all); "survivors" stops lexicase after
    `promotion_depth` cases (None: where it ends). Combinations that have no meaning are refused.
    """
    select = bind(method, **options)
    for name, owner, value in (
        ("promotion_cases", "expected", promotion_cases),
        ("promotion_depth", "survivors", promotion_depth),
    ):
        if value is not None and promotion != owner:
            raise InputError(
                f"{name} belongs to promotion {owner!r}, got {value} with promotion {promotion!r}: leave it out."
            )
        if value is not None and not SELECTIONS[method].asks:
            raise InputError(
                f"{name} counts cases, and selection {method!r} asks none, got {value}: leave it out."
            )
    if promotion == "winner" or method == "sgd":  # one candidate: whatever the promotion, it is the parent
        return select
    if promotion == "survivors":
        if method not in _WITH_DEPTH:
            raise InputError(
                f"promotion 'survivors' needs a selection that filters a pool case by case, one of "
                f"{', '.join(_WITH_DEPTH)}; got {method!r}: use one of them, or promotion 'average'."
            )
        info = SELECTIONS[method]
        filtered = partial(info.strategy, **{**info.options, **options}, depth=promotion_depth)
        return partial(_survivors, select=filtered)
    if promotion == "average" or method == "random":  # the expected parent of a random choice is the average
        return partial(_average, select=select, reason=promotion)
    _refuse_inexact(method, options)
    return partial(_expected, select=select, method=method, options=options, size=promotion_cases)


def _average(
    cases: Indices, errors: CaseErrors, rng: np.random.Generator, *, select: Selection, reason: str
) -> Choice:
    pool = errors.candidates
    if len(pool) == 1:
        return select(cases, errors, rng)
    kept = Choice(index=int(pool[0]), reason=reason, memory=errors.memory)
    return _weighted(kept, pool, np.ones(len(pool)))


def _expected(
    cases: Indices,
    errors: CaseErrors,
    rng: np.random.Generator,
    *,
    select: Selection,
    method: str,
    options: dict[str, Any],
    size: int | None,
) -> Choice:
    pool = errors.candidates
    if len(pool) == 1:
        return select(cases, errors, rng)
    asked = cases[:size]
    chances = _chances(errors(asked, pool), method, options)
    kept = Choice(index=int(pool[0]), reason="expected", cases_used=len(asked), memory=errors.memory)
    return _weighted(kept, pool, chances)


def _survivors(cases: Indices, errors: CaseErrors, rng: np.random.Generator, *, select: Selection) -> Choice:
    choice = select(cases, errors, rng)
    left = choice.survivors[-1][1] if choice.survivors else tuple(errors.candidates.tolist())
    return _weighted(choice, np.array(left, dtype=np.intp), np.ones(len(left)))


def _weighted(choice: Choice, pool: Indices, chances: npt.NDArray[np.float64]) -> Choice:
    """The choice with its weights, those above 0 only; the largest, or the first of several, gives the index."""
    shares = chances / chances.sum()
    weights = {int(i): float(share) for i, share in zip(pool, shares, strict=True) if share > 0}
    return replace(choice, index=int(pool[shares.argmax()]), weights=weights)


def _chances(table: ErrorTable, method: str, options: dict[str, Any]) -> Probabilities:
    if options.get("tournament_size") is not None:  # some of those who would enter may have diverged
        options = {**options, "tournament_size": min(options["tournament_size"], len(table))}
    return selection_probabilities(table, method=method, **options)


def _refuse_inexact(method: str, options: dict[str, Any]) -> None:
    try:
        _chances(np.zeros((1, 1)), method, options)
    except InputError as error:
        exact = ", ".join(name for name, info in SELECTIONS.items() if info.exact)
        raise InputError(
            f"promotion 'expected' needs a selection with exact probabilities ({exact}; epsilon-lexicase unless its "
            f"epsilon is the pool's own), got {method!r}: use one of them, or promotion 'average'."
        ) from error
