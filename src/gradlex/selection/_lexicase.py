"""Lexicase selection (Spector 2012; Helmuth, Spector & Matheson 2015), as in Ding & Spector 2022.

Go through the cases in random order and keep only the candidates that are best on each. Under the paper's
rule (its section 3.2) a case that every remaining candidate fails ends the selection, and one of the
remaining is picked at random; under the classic rule they all survive it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import numpy as np
from annotated_types import Ge

from gradlex.selection._protocol import FIRST_SLICE, CaseErrors, Choice, Indices, Trail, pick, slices

OnAllFail: TypeAlias = Literal["random", "survive"]
Depth: TypeAlias = Annotated[int, Ge(1)] | None


def lexicase(
    cases: Indices,
    errors: CaseErrors,
    rng: np.random.Generator,
    *,
    on_all_fail: OnAllFail = "random",
    depth: Depth = None,
    _first_slice: int = FIRST_SLICE,
) -> Choice:
    """Filter the pool case by case until one candidate is left (Algorithm 1, the inner loop).

    `on_all_fail="random"` is meant for 0/1 errors: any error above 0 is a failure, so that graded ones, a loss for
    example, would soon end in a random choice. With those use "survive", the classic rule.
    `depth` is how many cases are looked at, at most (None: no limit); one of those left is then picked at random.
    `_first_slice` is how many cases are evaluated at first, and never changes the answer.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, lexicase
        >>> errors = TableErrors([[0, 1, 0], [0, 0, 1], [1, 0, 0]])  # (candidates, cases)
        >>> choice = lexicase(np.array([0, 2, 1]), errors, np.random.default_rng(0))
        >>> choice.index, choice.reason, choice.cases_used
        (0, 'sole_survivor', 2)
        >>> choice.survivors  # after how many cases which candidates were left
        ((1, (0, 1)), (2, (0,)))
    """
    pool = errors.candidates
    trail = Trail()
    if len(pool) == 1:
        return trail.choose(int(pool[0]), "only_candidate")
    for part in slices(cases[:depth], _first_slice):
        table = errors(part, pool)  # (pool, cases)
        best = table.min(axis=0)
        start = trail.used
        alive = np.ones(len(pool), dtype=bool)
        # Only a case that splits the slice's first pool, or that all of it fails, can matter; few do.
        for column in np.flatnonzero((table > best).any(axis=0) | (best > 0)):
            values = table[alive, column]
            lowest = values.min()
            if lowest > 0 and on_all_fail == "random":
                trail.used = start + int(column) + 1
                trail.decide(part[column])
                return trail.choose(pick(pool[alive], rng), "all_failed")
            if (values == lowest).all():
                continue
            alive[alive] = values == lowest
            trail.used = start + int(column) + 1
            trail.shrink(pool[alive], part[column])
            if alive.sum() == 1:
                return trail.choose(int(pool[alive][0]), "sole_survivor")
        pool = pool[alive]
        trail.used = start + len(part)
    return trail.choose(pick(pool, rng), "exhausted")
