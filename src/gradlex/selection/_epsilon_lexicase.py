"""Epsilon-lexicase selection (La Cava, Spector & Danai 2016; La Cava, Helmuth, Spector & Moore 2019).

Lexicase for graded errors: a case keeps every candidate with e <= best + epsilon. Epsilon is the median
absolute deviation of the case's errors, median(|e - median(e)|), where the median of an even number of
values is the mean of the middle two; or one given number. In which population:

- static: best and epsilon from the whole population; where no one in the pool passes, all fail and stay;
- semi-dynamic (the default): best from the pool, epsilon from the whole population;
- dynamic: best and epsilon from the pool.

An error that is not finite has no part in the deviation and is never within epsilon of a finite one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from gradlex.selection._cases import ResolvedCases
from gradlex.selection._lexicase_parents import lexicase_parents
from gradlex.selection._pools import (
    Behaviours,
    Mask,
    Probabilities,
    kinds_of_cases,
    lexicase_probabilities,
    pool_chances,
)
from gradlex.selection._protocol import (
    FIRST_SLICE,
    CaseErrors,
    Choice,
    ErrorTable,
    Indices,
    Trail,
    pick,
    slices,
)

EpsilonMode: TypeAlias = Literal["static", "semi-dynamic", "dynamic"]
Floats: TypeAlias = npt.NDArray[np.float64]
Ask: TypeAlias = Callable[[Indices, Indices], tuple[Floats, Floats | None]]

_DRAWS = 64
"""Cases drawn with replacement for many parents at once, before only those are drawn that change a pool."""
_BLOCK = 1 << 20
"""How many (parent, candidate) pairs are held at once, at most."""


def epsilon_lexicase(
    cases: Indices,
    errors: CaseErrors,
    rng: np.random.Generator,
    *,
    epsilon: Annotated[float, Ge(0)] | None = None,
    epsilon_mode: EpsilonMode = "semi-dynamic",
    _first_slice: int = FIRST_SLICE,
) -> Choice:
    """Keep whoever is within epsilon of the best, case by case (None: the median absolute deviation).

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, epsilon_lexicase
        >>> errors = TableErrors([[0.10, 0.9], [0.12, 0.2], [0.9, 0.1]])  # (candidates, cases)
        >>> choice = epsilon_lexicase(np.array([0, 1]), errors, np.random.default_rng(0), epsilon=0.05)
        >>> choice.survivors  # 0.12 is as good as 0.10, so the second case decides
        ((1, (0, 1)), (2, (1,)))
    """

    def ask(part: Indices, pool: Indices) -> tuple[Floats, Floats | None]:
        if epsilon_mode == "static":
            return _failing(errors(part, everyone), epsilon)[np.isin(everyone, pool)], np.zeros(len(part))
        if epsilon is not None:
            return errors(part, pool).astype(np.float64), np.full(len(part), float(epsilon))
        if epsilon_mode == "dynamic":
            return errors(part, pool).astype(np.float64), None
        table = errors(part, everyone).astype(np.float64)
        return table[np.isin(everyone, pool)], median_absolute_deviation(table)

    everyone = errors.candidates
    return _choose(cases, everyone, rng, ask, _first_slice)


def _choose(cases: Indices, pool: Indices, rng: np.random.Generator, ask: Ask, first_slice: int) -> Choice:
    """`ask(cases, pool)` answers with the errors, (pool, cases), and an epsilon a case (None: the pool's)."""
    trail = Trail()
    if len(pool) == 1:
        return trail.choose(int(pool[0]), "only_candidate")
    for part in slices(cases, first_slice):
        table, epsilons = ask(part, pool)
        start = trail.used
        alive = np.ones(len(pool), dtype=bool)
        # With a given epsilon, a case that does not split a pool does not split a part of it either.
        columns = (
            np.arange(len(part))
            if epsilons is None
            else np.flatnonzero((table > table.min(axis=0) + epsilons).any(axis=0))
        )
        for column in columns:
            values = table[alive, column]
            within = median_absolute_deviation(values[:, None])[0] if epsilons is None else epsilons[column]
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


def median_absolute_deviation(table: ErrorTable) -> Floats:
    """median(|e - median(e)|) of each case of a (candidates, cases) table, over its finite errors."""
    values = np.asarray(table, dtype=np.float64)
    if np.isfinite(values).all():
        return np.asarray(np.median(np.abs(values - np.median(values, axis=0)), axis=0))
    deviations = np.zeros(values.shape[1])
    for case, column in enumerate(values.T):
        finite = column[np.isfinite(column)]
        if len(finite):
            deviations[case] = np.median(np.abs(finite - np.median(finite)))
    return deviations


def _failing(table: ErrorTable, epsilon: float | None) -> Floats:
    """Static: 1 where a candidate is not within epsilon of the population's best, otherwise 0."""
    values = table.astype(np.float64)
    within = median_absolute_deviation(values) if epsilon is None else float(epsilon)
    return np.asarray(values > values.min(axis=0) + within, dtype=np.float64)


def epsilon_lexicase_parents(
    table: ErrorTable, k: int, rng: np.random.Generator, *, epsilon: float | None, epsilon_mode: EpsilonMode
) -> Indices:
    """`k` independent parents from a (candidates, cases) table."""
    population, cases = table.shape
    if epsilon_mode == "static":
        return lexicase_parents(_failing(table, epsilon), k, rng)
    values = table.astype(np.float64)
    if epsilon_mode == "dynamic" and epsilon is None:

        def ask(part: Indices, pool: Indices) -> tuple[Floats, Floats | None]:
            return values[np.ix_(pool, part)], None

        everyone = np.arange(population)
        chosen = (_choose(rng.permutation(cases), everyone, rng, ask, 4) for _ in range(k))
        return np.array([choice.index for choice in chosen], dtype=np.intp)
    within = median_absolute_deviation(values) if epsilon is None else np.full(cases, float(epsilon))
    parents = np.empty(k, dtype=np.intp)
    block = max(64, _BLOCK // population)
    for start in range(0, k, block):
        some = parents[start : start + block]  # a view
        some[:] = _pick_each(_filtered(values, within, len(some), rng), rng)
    return parents


def _filtered(values: Floats, within: Floats, k: int, rng: np.random.Generator) -> Mask:
    """`k` pools, (k, candidates), each filtered by its own order of cases to the end, all at once.

    A used case never changes the pool again, so cases may be drawn with replacement; and the next one to change a
    pool is any of those that can, so that the pools left after some draws get one of these each time.
    """
    pools = np.ones((k, len(values)), dtype=bool)

    def narrow(which: Indices, cases: Indices) -> Indices:
        errors = values[:, cases].T
        best = np.where(pools[which], errors, np.inf).min(axis=1)
        pools[which] &= errors <= (best + within[cases])[:, None]
        return np.asarray(which[pools[which].sum(axis=1) > 1])

    active = np.arange(k if len(values) > 1 else 0)
    for _ in range(_DRAWS):
        active = narrow(active, rng.integers(len(within), size=len(active)))
    while len(active):
        kinds, kind = np.unique(pools[active], axis=0, return_inverse=True)
        cases = np.full(len(active), -1)
        for number, pool in enumerate(kinds):
            errors, its = values[pool], kind.ravel() == number
            telling = np.flatnonzero((errors > errors.min(axis=0) + within).any(axis=0))
            if len(telling):
                cases[its] = rng.choice(telling, its.sum())
        active = narrow(active[cases >= 0], cases[cases >= 0])
    return pools


def _pick_each(pools: Mask, rng: np.random.Generator) -> Indices:
    """One candidate of each pool, uniformly."""
    nth = rng.integers(pools.sum(axis=1))
    return np.asarray((pools.cumsum(axis=1) > nth[:, None]).argmax(axis=1))


def epsilon_lexicase_probabilities(
    table: ErrorTable,
    *,
    epsilon: float | None,
    epsilon_mode: EpsilonMode,
    order: ResolvedCases | None = None,
) -> Probabilities | None:
    """The exact chances; None where epsilon is the pool's own deviation, for which there is no such form."""
    if epsilon_mode == "static":
        return lexicase_probabilities(_failing(table, epsilon), order=order)
    if epsilon_mode == "dynamic" and epsilon is None:
        return None
    behaviour = Behaviours.of(table)
    kinds, counts, levels = kinds_of_cases(table.astype(np.float64), order)
    deviations = median_absolute_deviation(kinds) if epsilon is None else np.full(len(counts), float(epsilon))

    rows = kinds[behaviour.first]

    def near(pool: Indices) -> Mask:
        return np.asarray(rows[pool] <= rows[pool].min(axis=0) + deviations)

    return behaviour.shared(pool_chances(near, counts, behaviour.sizes, levels=levels))
