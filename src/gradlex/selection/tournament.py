"""Tournament selection on the mean error (Miller & Goldberg 1995), as compared in Ding & Spector 2022.

Draw `size` candidates without replacement; the one with the least mean error over all cases wins, ties broken at
random. The whole population, the default, makes it elitism.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np

from gradlex._checks import Count
from gradlex.errors import InputError
from gradlex.selection.means import least, levels
from gradlex.selection.order import CaseOrder
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, pick
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

    size: Count | None = None

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        """Choose the best entrant."""
        pool = errors.candidates
        if len(pool) == 1:
            return Choice(index=int(pool[0]), reason="only_candidate")
        size = len(pool) if self.size is None else min(self.size, len(pool))
        entrants = np.sort(rng.choice(pool, size=size, replace=False)) if size < len(pool) else pool
        best = entrants[least(errors(cases, entrants))]
        return Choice(
            index=pick(best, rng),
            reason="best_mean",
            cases_used=len(cases),
            survivors=((len(cases), tuple(best.tolist())),),
        )

    def following(self, order: CaseOrder | None) -> Tournament:
        """This strategy: its mean over a table can be weighted, but has no order."""
        if order is not None and order.levels is not None:
            raise InputError(
                "priorities say in which order cases come, and selection 'tournament' takes a mean: leave them out."
            )
        return self

    def probabilities(self, table: ErrorTable, order: CaseOrder | None = None) -> Floats | None:
        """The chance of each candidate: all entrants at least as bad, but not all worse, shared among equals."""
        if order is not None and order.weights is not None:
            table = np.asarray(table * order.weights)
        population = len(table)
        size = population if self.size is None else min(self.size, population)
        level = levels(table)
        equals = np.bincount(level)
        worse = population - np.cumsum(equals)
        draws = comb(population, size)
        chances = [
            (comb(int(w + e), size) - comb(int(w), size)) / draws / int(e)
            for w, e in zip(worse, equals, strict=True)
        ]
        return np.array(chances)[level]
