"""Tournament selection on the mean error (Miller & Goldberg 1995), as compared in Ding & Spector 2022.

Draw `size` candidates without replacement; the one with the least mean error over all cases wins, ties broken at
random. The whole population, the default, makes it elitism.

An infinite error outweighs every finite one but hides none: fewer infinities are better, and among as many the mean of
the finite errors decides. Means that differ by less than the rounding of their sums are equal: the order of the cases
must not break a tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np

from gradlex._checks import Count
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, Mask, Rng, decided, pick
from gradlex.selection.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Tournament(Strategy):
    """The best of `size` random entrants (None: everyone) by mean error over every case.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, Tournament
        >>> errors = TableErrors([[0, 0, 1], [1, 1, 0], [1, 1, 1]])
        >>> choice = Tournament()(np.arange(3), errors, np.random.default_rng(0))
        >>> choice.index, choice.reason, choice.cases_used
        (0, 'best_mean', 3)
    """

    name: ClassVar[str] = "tournament"
    paper: ClassVar[str] = "Miller & Goldberg 1995"

    size: Count | None = None

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        pool = errors.candidates
        size = len(pool) if self.size is None else min(self.size, len(pool))
        entrants = np.sort(rng.choice(pool, size=size, replace=False)) if size < len(pool) else pool
        best = entrants[least(errors(cases, entrants))]
        return decided(cases, best, pick(best, rng), "best_mean")

    def probabilities(self, table: ErrorTable) -> Floats | None:
        """The chance of each candidate: all entrants at least as bad, but not all worse, shared among equals."""
        population = len(table)
        size = population if self.size is None else min(self.size, population)
        place = _places(table)
        equals = np.bincount(place)
        worse = population - np.cumsum(equals)
        draws = comb(population, size)
        chances = [
            (comb(int(w + e), size) - comb(int(w), size)) / draws / int(e) for w, e in zip(worse, equals, strict=True)
        ]
        return np.array(chances)[place]


def least(table: ErrorTable) -> Mask:
    """Which rows of a (candidates, cases) table have the best mean."""
    return np.asarray(_places(table) == 0)


def _places(table: ErrorTable) -> Indices:
    """The place of each row among the different means, from 0, the best."""
    infinite = np.isinf(table)
    finite = np.where(infinite, 0, table) if infinite.any() else table
    infinities, means = infinite.sum(axis=1), finite.mean(axis=1, dtype=np.float64)
    rounding = table.shape[1] * np.finfo(np.float64).eps * np.abs(finite).mean(axis=1, dtype=np.float64)
    order = np.lexsort((means, infinities))
    further = np.diff(means[order]) > rounding[order][1:] + rounding[order][:-1]
    places = np.empty(len(table), dtype=np.intp)
    places[order] = np.cumsum([False, *(further | (np.diff(infinities[order]) > 0))])
    return places
