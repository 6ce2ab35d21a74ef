"""Batch lexicase selection (Aenugu & Spector 2019).

The shuffled cases are taken in batches; a batch keeps the candidates of the pool with the least mean error over it. The
last batch may be smaller. A batch of one case is lexicase under the classic rule; with all the cases in one batch it is
elitism on the mean error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradlex._checks import Count
from gradlex.selection.protocol import CaseErrors, Choice, Indices, Rng, Trail, pick, slices
from gradlex.selection.strategy import Strategy
from gradlex.selection.tournament import least


@dataclass(frozen=True, kw_only=True)
class BatchLexicase(Strategy):
    """Filter the pool batch by batch of `batch_size` cases until one candidate is left.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import BatchLexicase, TableErrors
        >>> errors = TableErrors([[0, 1, 1, 1], [1, 0, 0, 0]])  # the first candidate solves one case, the second three
        >>> order = np.array([0, 1, 2, 3])
        >>> BatchLexicase(batch_size=1)(order, errors, np.random.default_rng(0)).index
        0
        >>> BatchLexicase(batch_size=4)(order, errors, np.random.default_rng(0)).index
        1
    """

    name: ClassVar[str] = "batch-lexicase"
    paper: ClassVar[str] = "Aenugu & Spector 2019"

    batch_size: Count = 32

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        pool = errors.candidates
        trail = Trail()
        # Whole batches a slice: both sizes are rounded up to a multiple of the batch.
        first, largest = (-(-size // self.batch_size) * self.batch_size for size in (32, 1024))
        for part in slices(cases, first, largest):
            table = errors(part, pool)  # (pool, cases)
            alive = np.arange(len(pool))
            for start in range(0, len(part), self.batch_size):
                batch = np.ascontiguousarray(table[alive, start : start + self.batch_size])
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
