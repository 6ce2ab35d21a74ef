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
from gradlex.selection.protocol import (
    CaseErrors,
    Choice,
    ErrorTable,
    Floats,
    Indices,
    Mask,
    Rng,
    decided,
    pick,
)
from gradlex.selection.strategy import ClosedForm


@dataclass(frozen=True, kw_only=True)
class Tournament(ClosedForm):
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
        level = _levels(table)
        equals = np.bincount(level)
        worse = population - np.cumsum(equals)
        draws = comb(population, size)
        chances = [
            (comb(int(w + e), size) - comb(int(w), size)) / draws / int(e) for w, e in zip(worse, equals, strict=True)
        ]
        return np.array(chances)[level]


def least(table: ErrorTable) -> Mask:
    """Which rows of a (candidates, cases) table have the best mean."""
    infinities, means, rounding = _parts(table)
    best = np.asarray(infinities == infinities.min())
    lowest = np.flatnonzero(best)[means[best].argmin()]
    best &= means - means[lowest] <= rounding + rounding[lowest]
    return best


def _levels(table: ErrorTable) -> Indices:
    """The place of each row among the different means, from 0, the best."""
    infinities, means, rounding = _parts(table)
    order = np.lexsort((means, infinities))
    before, after = order[:-1], order[1:]
    differs = (infinities[after] != infinities[before]) | (
        means[after] - means[before] > rounding[after] + rounding[before]
    )
    places = np.empty(len(table), dtype=np.intp)
    places[order] = np.concatenate([[0], np.cumsum(differs)])
    return places


def _parts(table: ErrorTable) -> tuple[Indices, Floats, Floats]:
    """Of each row: its infinities, the mean of its other errors, and how far that may be off."""
    infinite = np.isinf(table)
    finite = np.where(infinite, 0, table) if infinite.any() else table
    means = finite.mean(axis=1, dtype=np.float64)
    sizes = means if finite.min() >= 0 else np.abs(finite).mean(axis=1, dtype=np.float64)
    return infinite.sum(axis=1), means, table.shape[1] * np.finfo(np.float64).eps * sizes
