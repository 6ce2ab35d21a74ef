"""Selection written down a second time, slowly and case by case, to hold the package against."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from gradlex.selection import TableErrors

Rule = Callable[[np.ndarray, list[int], list[int]], "list[int] | None"]


class Asked(TableErrors):
    """A table that notes each question, and of which some candidates may have diverged."""

    def __init__(self, table, candidates=None, memory=None) -> None:
        super().__init__(table, memory=memory)
        self.shape = np.asarray(table).shape
        self.candidates = self.candidates if candidates is None else np.asarray(candidates)
        self.calls: list[tuple[list[int], list[int]]] = []
        self.matrices = 0

    @property
    def evaluated(self) -> int:
        return sum(len(cases) * len(pool) for cases, pool in self.calls)

    def __call__(self, cases, pool):
        self.calls.append((cases.tolist(), pool.tolist()))
        return super().__call__(cases, pool)

    def matrix(self):
        self.matrices += 1
        return super().matrix()[self.candidates]


def lexicase_rule(on_all_fail: str = "survive") -> Rule:
    def keep(table: np.ndarray, pool: list[int], batch: list[int]) -> list[int] | None:
        lowest = min(table[i, batch[0]] for i in pool)
        if lowest > 0 and on_all_fail == "random":
            return None
        return [i for i in pool if table[i, batch[0]] == lowest]

    return keep


def middle(values: Iterable[float]) -> float:
    """The median: for an even number of values the mean of the middle two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def deviation(values: list[float]) -> float:
    finite = [v for v in values if np.isfinite(v)]
    return middle(abs(v - middle(finite)) for v in finite) if finite else 0.0


def epsilon_rule(mode: str, epsilon: float | list[float] | None = None) -> Rule:
    def keep(table: np.ndarray, pool: list[int], batch: list[int]) -> list[int]:
        case = batch[0]
        everyone = list(range(len(table)))
        of_best = everyone if mode == "static" else pool
        of_epsilon = pool if mode == "dynamic" else everyone
        within = epsilon[case] if isinstance(epsilon, list) else epsilon
        if within is None:
            within = deviation([table[i, case] for i in of_epsilon])
        limit = min(table[i, case] for i in of_best) + within
        return [i for i in pool if table[i, case] <= limit] or pool

    return keep


def batch_rule(table: np.ndarray, pool: list[int], batch: list[int]) -> list[int]:
    means = {i: float(np.mean([table[i, case] for case in batch])) for i in pool}
    return [i for i in pool if means[i] == min(means.values())]


def walk(
    table: np.ndarray, order: Iterable[int], rule: Rule, batch: int = 1
) -> tuple[list[int], int, str, list[tuple[int, tuple[int, ...]]]]:
    """The last pool, the cases used, why it ended and the trail."""
    order = list(order)
    pool, used, trail = list(range(len(table))), 0, []
    if len(pool) == 1:
        return pool, 0, "only_candidate", trail
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        used += len(part)
        left = rule(table, pool, part)
        if left is None:
            return pool, used, "all_failed", trail
        if len(left) < len(pool):
            pool = left
            trail.append((used, tuple(pool)))
        if len(pool) == 1:
            return pool, used, "sole_survivor", trail
    return pool, used, "exhausted", trail


def enumerate_orders(table: np.ndarray, rule: Rule, batch: int = 1, depth: int | None = None) -> np.ndarray:
    """The chance of each candidate, over every order of the cases."""
    chances = np.zeros(len(table))
    orders = list(itertools.permutations(range(table.shape[1])))
    for order in orders:
        pool = walk(table, order[:depth], rule, batch)[0]
        chances[pool] += 1 / len(pool)
    return chances / len(orders)


def agree(chosen: Iterable[int], chances: np.ndarray, level: float = 1e-4) -> None:
    """Chi-square: the chosen follow the chances, and no candidate of chance 0 is among them."""
    counts = np.bincount(np.fromiter(chosen, dtype=np.intp), minlength=len(chances))
    possible = chances > 1e-12
    assert counts[~possible].sum() == 0
    if possible.sum() > 1:
        expected = chances[possible] / chances[possible].sum() * counts.sum()
        assert stats.chisquare(counts[possible], expected).pvalue > level, (counts, chances)


def random_table(rng: np.random.Generator, cases: int = 40) -> np.ndarray:
    """All kinds: few failures, many, all failing, ties, graded, infinite, repeated candidates."""
    shape = rng.integers(1, 9), rng.integers(1, cases)
    kind = rng.integers(4)
    if kind == 3:
        table = rng.integers(0, 4, shape).astype(float)
    else:
        table = (rng.random(shape) < (0.02, 0.5, 1.0)[kind]).astype(float)
    if rng.random() < 0.3:
        table[rng.integers(shape[0])] = table[rng.integers(shape[0])]
    if rng.random() < 0.1:
        table[rng.integers(shape[0]), rng.integers(shape[1])] = np.inf
    return table


@pytest.fixture(scope="session")
def naive() -> SimpleNamespace:
    return SimpleNamespace(
        Asked=Asked,
        lexicase_rule=lexicase_rule,
        epsilon_rule=epsilon_rule,
        batch_rule=batch_rule,
        walk=walk,
        enumerate_orders=enumerate_orders,
        agree=agree,
        random_table=random_table,
    )
