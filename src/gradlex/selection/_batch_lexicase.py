"""Batch lexicase selection (Aenugu & Spector 2019).

The shuffled cases are taken in batches of b; a batch keeps the candidates of the pool with the least mean
error over it. The last batch may be smaller. b = 1 is lexicase under the classic rule; with all the cases in
one batch it is elitism on the mean error.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Ge

from gradlex.selection._means import least
from gradlex.selection._protocol import (
    FIRST_SLICE,
    LARGEST_SLICE,
    CaseErrors,
    Choice,
    Indices,
    Trail,
    pick,
    slices,
)


def batch_lexicase(
    cases: Indices,
    errors: CaseErrors,
    rng: np.random.Generator,
    *,
    case_batch: Annotated[int, Ge(1)] = 32,
    _first_slice: int = FIRST_SLICE,
) -> Choice:
    """Filter the pool batch by batch of `case_batch` cases until one candidate is left.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, batch_lexicase
        >>> errors = TableErrors([[0, 1, 1, 1], [1, 0, 0, 0]])  # the first candidate solves one case, the second three
        >>> order = np.array([0, 1, 2, 3])
        >>> batch_lexicase(order, errors, np.random.default_rng(0), case_batch=1).index
        0
        >>> batch_lexicase(order, errors, np.random.default_rng(0), case_batch=4).index
        1
    """
    pool = errors.candidates
    trail = Trail()
    if len(pool) == 1:
        return trail.choose(int(pool[0]), "only_candidate")
    # Whole batches a slice: both sizes are rounded up to a multiple of the batch.
    first, largest = (-(-size // case_batch) * case_batch for size in (_first_slice, LARGEST_SLICE))
    for part in slices(cases, first, largest):
        table = errors(part, pool)  # (pool, cases)
        alive = np.arange(len(pool))
        for start in range(0, len(part), case_batch):
            batch = np.ascontiguousarray(table[alive, start : start + case_batch])
            trail.used += batch.shape[1]
            best = least(batch)
            if best.all():
                continue
            alive = alive[best]
            trail.shrink(pool[alive])
            if len(alive) == 1:
                return trail.choose(int(pool[alive[0]]), "sole_survivor")
        pool = pool[alive]
    return trail.choose(pick(pool, rng), "exhausted")
