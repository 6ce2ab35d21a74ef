"""Tournament selection on the mean error (Miller & Goldberg 1995), as compared in Ding & Spector 2022.

Draw `tournament_size` candidates without replacement; the one with the least mean error over all cases
wins, ties broken at random. The whole population, the default, makes it elitism.
"""

from __future__ import annotations

from math import comb
from typing import Annotated

import numpy as np
from annotated_types import Ge

from gradlex.errors import InputError
from gradlex.selection._means import least, levels
from gradlex.selection._pools import Probabilities
from gradlex.selection._protocol import CaseErrors, Choice, ErrorTable, Indices, pick


def tournament(
    cases: Indices,
    errors: CaseErrors,
    rng: np.random.Generator,
    *,
    tournament_size: Annotated[int, Ge(1)] | None = None,
) -> Choice:
    """The best of `tournament_size` random entrants (None: everyone) by mean error over every case.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, tournament
        >>> errors = TableErrors([[0, 0, 1], [1, 1, 0], [1, 1, 1]])
        >>> choice = tournament(np.arange(3), errors, np.random.default_rng(0))
        >>> choice.index, choice.reason, choice.cases_used
        (0, 'best_mean', 3)
    """
    pool = errors.candidates
    if len(pool) == 1:
        return Choice(index=int(pool[0]), reason="only_candidate")
    size = len(pool) if tournament_size is None else min(tournament_size, len(pool))
    entrants = np.sort(rng.choice(pool, size=size, replace=False)) if size < len(pool) else pool
    best = entrants[least(errors(cases, entrants))]
    return Choice(
        index=pick(best, rng),
        reason="best_mean",
        cases_used=len(cases),
        survivors=((len(cases), tuple(best.tolist())),),
    )


def tournament_probabilities(table: ErrorTable, *, tournament_size: int | None) -> Probabilities:
    """The chance of each candidate: all entrants at least as bad, but not all worse, shared among equals."""
    population = len(table)
    size = population if tournament_size is None else tournament_size
    if size > population:
        raise InputError(
            f"tournament_size is at most the number of individuals; got {size} for a table of {population}. "
            "Give a smaller one, or None for all of them."
        )
    level = levels(table)
    equals = np.bincount(level)
    worse = population - np.cumsum(equals)
    draws = comb(population, size)
    chances = [
        (comb(int(w + e), size) - comb(int(w), size)) / draws / int(e)
        for w, e in zip(worse, equals, strict=True)
    ]
    return np.array(chances)[level]
