"""The weights of the parent: the winner alone, or a mean of several candidates.

- winner: the chosen candidate (Ding & Spector 2022);
- average: every candidate alike, which is local SGD (Stich 2019; Lin et al. 2020); no case is evaluated;
- expected: each candidate by its chance to be chosen, the expected parent of the strategy; unpublished as far as we
  know. Exact up to a fixed amount of work, estimated beyond it (see `selection_chances`);
- survivors: the pool that lexicase has left, alike; its option `depth` says after how many cases.

A promotion wraps a strategy, so that its Choice carries the weights; a single candidate needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from gradlex._checks import check
from gradlex.errors import InputError
from gradlex.recipe import Promotion
from gradlex.selection._cases import CaseView, worst_for_nan
from gradlex.selection._protocol import CaseErrors, Choice, Indices, Selection
from gradlex.selection._registry import SELECTIONS, SelectionInfo, bind, find
from gradlex.selection._table import chances_of


def promoting(
    promotion: Promotion,
    method: str | Callable[..., Choice],
    *,
    cases: int | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Selection:
    """The method with its options bound, and Choices that carry the weights of the parent.

    `cases` random cases decide the chances of "expected" (None: all). "survivors" needs a method with the option
    `depth`, whose Choices say whom the cases have left. Combinations that have no meaning are refused.
    """
    check("promotion", Promotion, promotion)
    check("promotion_cases", Annotated[int, Ge(1)] | None, cases)
    info = find(method)
    select = bind(method, **options)
    if cases is not None and promotion != "expected":
        raise InputError(
            f"promotion_cases belongs to promotion 'expected', got {cases} with promotion {promotion!r}: leave it out."
        )
    if cases is not None and not info.asks:
        raise InputError(
            f"promotion_cases counts cases, and selection {info.name!r} evaluates none, got {cases}: leave it out."
        )
    if promotion == "winner" or info.name == "sgd":  # one candidate: whatever the promotion, it is the parent
        return select
    if promotion == "survivors":
        if "depth" not in info.options:
            filters = ", ".join(name for name, other in SELECTIONS.items() if "depth" in other.options)
            raise InputError(
                f"promotion 'survivors' needs a selection that filters a pool case by case, one of {filters}; "
                f"got {info.name!r}: use one of them, or promotion 'average'."
            )
        return partial(_survivors, select=select)
    if (
        promotion == "average" or info.name == "random"
    ):  # the expected parent of a random choice is the average
        return partial(_average, select=select, reason=promotion)
    if not _has_exact_chances(info, options):
        exact = ", ".join(name for name, other in SELECTIONS.items() if other.exact)
        raise InputError(
            f"promotion 'expected' needs a selection with exact probabilities ({exact}; epsilon-lexicase unless its "
            f"epsilon is the pool's own), got {info.name!r}: use one of them, or promotion 'average'."
        )
    return partial(_expected, select=select, method=info.name, options=dict(options), size=cases)


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
    seen = cases[:size]
    described = errors.described if isinstance(errors, CaseView) else None
    order = described.taken(seen) if described is not None and described.ordered else None
    chances = chances_of(
        worst_for_nan(errors(seen, pool)), order, method=method, options=_fitting(options, len(pool))
    )
    reason = "expected" if chances.exact else "estimated"
    kept = Choice(index=int(pool[0]), reason=reason, cases_used=len(seen), memory=errors.memory)
    return _weighted(kept, pool, chances.values)


def _survivors(cases: Indices, errors: CaseErrors, rng: np.random.Generator, *, select: Selection) -> Choice:
    choice = select(cases, errors, rng)
    left = choice.survivors[-1][1] if choice.survivors else tuple(errors.candidates.tolist())
    return _weighted(choice, np.array(left, dtype=np.intp), np.ones(len(left)))


def _weighted(choice: Choice, pool: Indices, chances: npt.NDArray[np.float64]) -> Choice:
    """The choice with its weights, those above 0 only; the largest, or the first of several, gives the index."""
    shares = chances / chances.sum()
    weights = {int(i): float(share) for i, share in zip(pool, shares, strict=True) if share > 0}
    return replace(choice, index=int(pool[shares.argmax()]), weights=weights)


def _has_exact_chances(info: SelectionInfo, options: Mapping[str, Any]) -> bool:
    """Whether the method has them with these options: epsilon-lexicase has not with every one."""
    if info.probabilities is None:
        return False
    bound = {**info.options, **_fitting(options, 1)}
    return info.probabilities(np.zeros((1, 1)), **bound) is not None


def _fitting(options: Mapping[str, Any], candidates: int) -> Mapping[str, Any]:
    """The options for so many candidates: some of those who would enter a tournament may have diverged."""
    if options.get("tournament_size") is None:
        return options
    return {**options, "tournament_size": min(options["tournament_size"], candidates)}
