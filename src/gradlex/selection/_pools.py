"""The exact chance of every candidate when the pool is filtered case by case in a random order.

La Cava, Helmuth, Spector & Moore (2019) define these probabilities; computing them is exponential in
general, but for a population of a network's size it is quick. The argument needs one property of a filter:
a case that was used never changes the pool again. Then every case that changes a pool is still to come,
and the next one to do so is any of them alike, whatever came before. So probability flows from larger
pools to smaller ones, and the pools that can be reached are few. Who has the property:

- lexicase, for graded errors too: a case leaves only equals, and equals are never split again;
- lexicase under the paper's all-fail rule: a used case was solved by somebody, so by all who are left;
- epsilon-lexicase with an epsilon fixed per case: as the pool shrinks, its best error on a used case can
  only rise, so whoever was within epsilon of it stays so;
- not dynamic epsilon-lexicase: the deviation within a smaller pool is another one, and may split it;
- not batch lexicase: a case comes with the others of its batch, and those with it are used up.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gradlex.selection._lexicase import OnAllFail
from gradlex.selection._protocol import ErrorTable, Indices

Probabilities = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def lexicase_probabilities(
    table: ErrorTable, *, on_all_fail: OnAllFail = "survive", depth: int | None = None
) -> Probabilities:
    """Lexicase on a checked (candidates, cases) table, after `depth` cases of the order at most."""
    if on_all_fail == "random":
        kinds, counts = distinct_columns((table != 0).astype(np.uint8))
        return pool_chances(lambda pool: kinds[pool] == 0, counts, len(table), depth)
    kinds, counts = distinct_columns(dense_ranks(table))

    def best(pool: Indices) -> Mask:
        ranks = kinds[pool]
        return np.asarray(ranks == ranks.min(axis=0))

    return pool_chances(best, counts, len(table), depth)


def pool_chances(
    survivors: Callable[[Indices], Mask], counts: Indices, population: int, depth: int | None = None
) -> Probabilities:
    """The chance of each candidate.

    `survivors(pool)` says who passes, (pool, kinds of case); a case that nobody passes ends the selection.
    `counts` is how many cases there are of each kind. With `depth`, only that many cases are looked at.
    """
    cases = int(counts.sum())
    chances = np.zeros(population)
    start = np.zeros(1 if depth is None else depth + 1)  # by the number of cases used, where it matters
    start[0] = 1
    arriving = {np.arange(population).tobytes(): start}
    waiting = [(-population, np.arange(population).tobytes())]  # the largest first: nothing can join it
    while waiting:
        key = heapq.heappop(waiting)[1]
        pool, arrival = np.frombuffer(key, dtype=np.intp), arriving.pop(key)
        if len(pool) == 1:
            chances[pool] += arrival.sum()
            continue
        successors, weights = _successors(survivors(pool), counts)
        staying, each = _leave(arrival, int(weights.sum()), cases)
        for column, weight in zip(successors.T, weights, strict=True):
            if not column.any():
                staying += float(each.sum() * weight)
                continue
            successor = pool[column].tobytes()
            if successor not in arriving:
                heapq.heappush(waiting, (-int(column.sum()), successor))
                arriving[successor] = np.zeros_like(each)
            arriving[successor] += each * weight
        chances[pool] += staying / len(pool)
    return chances


def _leave(arrival: Probabilities, changing: int, cases: int) -> tuple[float, Probabilities]:
    """The chance to end in a pool, and to leave it by one given case, when `changing` of them can.

    Looking at every case, a pool is left for certain if any case can. Looking at few, the chance that the
    next case does depends on how many are still to come, so it is followed case by case.
    """
    if len(arrival) == 1:
        return (float(arrival[0]), np.zeros(1)) if changing == 0 else (0.0, arrival / changing)
    each = np.zeros_like(arrival)
    here = 0.0
    for used in range(len(arrival) - 1):
        here += arrival[used]
        each[used + 1] = here / (cases - used)
        here *= max(0, cases - used - changing) / (cases - used)
    return float(here + arrival[-1]), each


def _successors(passing: Mask, counts: Indices) -> tuple[Mask, Indices]:
    """The different pools that the next case can leave, (pool, successors), and by how many cases each."""
    changes = ~passing.all(axis=0)
    passing, counts = passing[:, changes], counts[changes]
    packed = np.packbits(passing, axis=0)
    _, first, kind = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    weights = np.bincount(kind.ravel(), weights=counts, minlength=len(first))
    return passing[:, first], weights.astype(np.intp)


def distinct_columns(table: ErrorTable) -> tuple[ErrorTable, Indices]:
    """The different cases of a (candidates, cases) table and how often each occurs."""
    columns, counts = np.unique(table, axis=1, return_counts=True)
    return columns, counts


def dense_ranks(table: ErrorTable) -> npt.NDArray[np.integer]:
    """Each error's rank among those of its case, equals alike: all that lexicase sees of it."""
    order = np.argsort(table, axis=0, kind="stable")
    errors = np.take_along_axis(table, order, axis=0)
    steps = np.zeros(table.shape, dtype=np.uint8 if len(table) < 256 else np.int32)
    steps[1:] = errors[1:] != errors[:-1]
    np.cumsum(steps, axis=0, out=steps)
    ranks = np.empty_like(steps)
    np.put_along_axis(ranks, order, steps, axis=0)
    return ranks
