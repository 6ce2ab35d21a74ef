"""Epsilon-lexicase selection (La Cava, Spector & Danai 2016; La Cava, Helmuth, Spector & Moore 2019).

Lexicase for graded errors: a case keeps every candidate with e <= best + epsilon. Epsilon is the median absolute
deviation of the case's errors, median(|e - median(e)|), where the median of an even number of values is the mean of the
middle two; or it is given. In which population:

- static: best and epsilon from the whole population; where no one in the pool passes, all fail and stay;
- semi-dynamic (the default): best from the pool, epsilon from the whole population;
- dynamic: best and epsilon from the pool.

An error that is not finite has no part in the deviation and is never within epsilon of a finite one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from gradlex._checks import NonNegative
from gradlex.errors import InputError
from gradlex.selection.chances import lexicase_probabilities
from gradlex.selection.parents import lexicase_parents
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, Rng, Trail, pick, slices
from gradlex.selection.strategy import Strategy

_EachCase = Annotated[tuple[NonNegative, ...], "one such number for each case"]


@dataclass(frozen=True, kw_only=True)
class EpsilonLexicase(Strategy):
    """Keep the candidates within epsilon of the best, case by case.

    Args:
        epsilon: One number, or one for each case. None: the median absolute deviation of the case's errors.
        mode: "static", "semi-dynamic" or "dynamic": whether best and epsilon are the population's or the pool's.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import EpsilonLexicase, TableErrors
        >>> errors = TableErrors([[0.10, 0.9], [0.12, 0.2], [0.9, 0.1]])  # (candidates, cases)
        >>> choice = EpsilonLexicase(epsilon=0.05)(np.array([0, 1]), errors, np.random.default_rng(0))
        >>> choice.survivors  # 0.12 is as good as 0.10, so the second case decides
        ((1, (0, 1)), (2, (1,)))
    """

    name: ClassVar[str] = "epsilon-lexicase"
    paper: ClassVar[str] = "La Cava et al. 2016, 2019"

    epsilon: NonNegative | _EachCase | None = None
    mode: Literal["static", "semi-dynamic", "dynamic"] = "semi-dynamic"

    def __post_init__(self) -> None:
        if isinstance(self.epsilon, list | np.ndarray):
            object.__setattr__(self, "epsilon", tuple(np.asarray(self.epsilon).tolist()))
        super().__post_init__()

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        given = self._given(len(cases))
        everyone = pool = errors.candidates
        trail = Trail()
        for part in slices(cases):
            epsilons = None if given is None else given[part]
            if self.mode == "dynamic" or (self.mode == "semi-dynamic" and epsilons is not None):
                table = errors(part, pool).astype(np.float64)
            else:
                whole = errors(part, everyone).astype(np.float64)
                epsilons = _median_absolute_deviation(whole) if epsilons is None else epsilons
                if self.mode == "static":
                    whole, epsilons = _failing(whole, epsilons), np.zeros(len(part))
                table = whole[np.isin(everyone, pool)]
            start = trail.used
            alive = np.ones(len(pool), dtype=bool)
            columns = np.arange(len(part))
            if epsilons is not None:  # a case that doesn't split a pool doesn't split a part of it either
                columns = np.flatnonzero((table > table.min(axis=0) + epsilons).any(axis=0))
            for column in columns:
                values = table[alive, column]
                within = _median_absolute_deviation(values[:, None])[0] if epsilons is None else epsilons[column]
                passing = values <= values.min() + within
                if passing.all():
                    continue
                alive[alive] = passing
                trail.used = start + int(column) + 1
                trail.shrink(pool[alive], part[column])
                if alive.sum() == 1:
                    return trail.choose(int(pool[alive][0]), "sole_survivor")
            pool = pool[alive]
            trail.used = start + len(part)
        return trail.choose(pick(pool, rng), "exhausted")

    def _given(self, cases: int) -> Floats | None:
        """The given epsilon of each case."""
        if isinstance(self.epsilon, tuple) and len(self.epsilon) != cases:
            raise InputError(f"epsilon must be one number, or one for each of {cases} cases, got {len(self.epsilon)}.")
        return None if self.epsilon is None else np.broadcast_to(np.asarray(self.epsilon, dtype=np.float64), cases)

    def parents(self, table: ErrorTable, k: int, rng: Rng) -> Indices | None:
        """`k` independent parents, each by its own order of the cases."""
        values, within = self._compared(table)
        return None if values is None else lexicase_parents(values, k, rng, within=within)

    def probabilities(self, table: ErrorTable) -> Floats | None:
        """The exact chances; None where epsilon is the pool's own deviation, for which there is no such form."""
        values, within = self._compared(table)
        return None if values is None else lexicase_probabilities(values, within=within)

    @property
    def has_exact_chances(self) -> bool:
        """Unless epsilon is the pool's own."""
        return self.epsilon is not None or self.mode != "dynamic"

    def _compared(self, table: ErrorTable) -> tuple[Floats | None, Floats | None]:
        """The errors of a table and the epsilon of each case; no errors where it is the pool's own deviation."""
        values, within = table.astype(np.float64), self._given(table.shape[1])
        if within is None and self.mode == "dynamic":
            return None, None
        within = _median_absolute_deviation(values) if within is None else within
        return (_failing(values, within), None) if self.mode == "static" else (values, within)


def _median_absolute_deviation(table: ErrorTable) -> Floats:
    """median(|e - median(e)|) of each case of a (candidates, cases) table, over its finite errors."""
    values = np.asarray(table, dtype=np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        # A case without a finite error gets deviation 0.
        values = np.where(finite, values, np.where(finite.any(axis=0), np.nan, 0.0))
    return np.asarray(np.nanmedian(np.abs(values - np.nanmedian(values, axis=0)), axis=0))


def _failing(values: Floats, within: Floats) -> Floats:
    """Static: 1 where a candidate is not within epsilon of the population's best, otherwise 0."""
    return np.asarray(values > values.min(axis=0) + within, dtype=np.float64)
