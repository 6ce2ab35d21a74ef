"""Plexicase, probabilistic lexicase selection (Ding, Pantridge & Spector 2023).

A closed form in the place of lexicase's chances. Candidates that another dominates (nowhere worse, somewhere better)
are dropped. Each case is shared out among the remaining candidates that are best on it, in proportion to the number of
cases on which each is best; a candidate's probability is the mean of its parts over the cases, raised to the power
alpha and normalized again: above 1 more pressure, below 1 less. Best nowhere is probability 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradlex._checks import NonNegative
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, Mask, Rng, decided
from gradlex.selection.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Plexicase(Strategy):
    """Draw one candidate by its probability.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Plexicase, TableErrors, selection_probabilities
        >>> errors = [[0, 0, 1], [1, 1, 0], [1, 1, 1]]
        >>> choice = Plexicase()(np.arange(3), TableErrors(errors), np.random.default_rng(0))
        >>> choice.survivors  # the candidates with any chance
        ((3, (0, 1)),)
        >>> selection_probabilities(errors, Plexicase(alpha=2)).round(2).tolist()
        [0.8, 0.2, 0.0]
    """

    name: ClassVar[str] = "plexicase"
    paper: ClassVar[str] = "Ding, Pantridge & Spector 2023"

    alpha: NonNegative = 1.0

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        pool = errors.candidates
        chances = self.probabilities(errors.matrix())
        return decided(cases, pool[chances > 0], int(rng.choice(pool, p=chances)), "drawn")

    def probabilities(self, table: ErrorTable) -> Floats:
        """The published probabilities."""
        best = np.asarray(table == table.min(axis=0), dtype=np.float64)
        best[_dominated(table)] = 0.0
        best *= best.sum(axis=1, keepdims=True)
        chances = (best / best.sum(axis=0)).mean(axis=1)
        chosen = chances > 0  # 0 to the power 0 would be 1
        # Divided by the largest first, so that a large alpha does not make every power 0.
        chances[chosen] = (chances[chosen] / chances.max()) ** self.alpha
        return np.asarray(chances / chances.sum())


def _dominated(table: ErrorTable) -> Mask:
    """Which candidates are dominated. What a dropped one dominates, its own dominator does as well."""
    alive = np.arange(len(table))
    for candidate in range(len(table)):
        if candidate not in alive:
            continue
        others = table[alive]
        worse = (others >= table[candidate]).all(axis=1) & (others > table[candidate]).any(axis=1)
        alive = alive[~worse]
    return ~np.isin(np.arange(len(table)), alive)
