"""The exact chance of every candidate when the pool is filtered case by case in a random order.

La Cava, Helmuth, Spector & Moore (2019) define these probabilities; computing them is exponential in general, but for a
population of a network's size it is quick. The argument needs one property of a filter: a case that was used never
changes the pool again. Then every case that changes a pool is still to come, and the next one to do so is any of them
alike, whatever came before. So probability flows from larger pools to smaller ones. Filters with the property:

- lexicase, for graded errors too: a case leaves only equals, and equals are never split again;
- lexicase under the paper's all-fail rule: a used case was solved by one candidate, so by all who are left;
- epsilon-lexicase with an epsilon fixed per case: as the pool shrinks, its best error on a used case can only rise, so
  candidates within epsilon of it stay so;
- not dynamic epsilon-lexicase: the deviation within a smaller pool is different, and may split it;
- not batch lexicase: a case comes with the others of its batch, and uses them up.

The work is bounded: `TooManyPools` is raised before the time is spent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gradlex.selection.order import CaseOrder
from gradlex.selection.protocol import ErrorTable, Floats, Indices, Mask

_MOST_WORK = 1 << 26
"""How many (candidate, case) pairs are looked at for the pools, and again for a depth; about a second."""
_FEW = 10
_NOTHING = 1e-18
"""A chance too small to change any sum."""


class TooManyPools(Exception):
    """More pools can be reached than are followed: the chances must be estimated."""


def lexicase_probabilities(
    table: ErrorTable, *, ends: bool, depth: int | None, order: CaseOrder | None
) -> Floats:
    """Lexicase on a checked (candidates, cases) table; a pool that fails a case `ends` it, or survives whole."""
    ranks = (table != 0).astype(np.uint8) if ends else dense_ranks(table)

    def best(kinds: ErrorTable, which: Indices) -> Mask:
        return np.asarray(kinds == (0 if ends else kinds.min(axis=0)))

    return filter_probabilities(best, ranks, depth=depth, order=order)


def filter_probabilities(
    survivors: Callable[[ErrorTable, Indices], Mask],
    table: ErrorTable,
    *,
    marks: Floats | None = None,
    depth: int | None = None,
    order: CaseOrder | None = None,
) -> Floats:
    """The chances under any filter with the property, on a (candidates, cases) table.

    `survivors(errors, cases)` returns which rows of a pool's (pool, cases) errors each of these cases keeps; none where
    it ends the selection. Cases with equal errors, and equal `marks` if given, must be alike to it.
    """
    # Candidates that are equal everywhere stay together in every pool, so that one row stands for all of them.
    seen: dict[bytes, int] = {}
    owner = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in table], dtype=np.intp)
    table, sizes = table[np.unique(owner, return_index=True)[1]], np.bincount(owner)
    # Only the first of equal columns matters, and how many there are.
    levels = None if order is None else order.levels
    keyed = np.vstack([table, *(row for row in (levels, marks) if row is not None)])
    first, counts = _distinct_columns(keyed, None if order is None else order.weights)
    kinds, levels = table[:, first], None if levels is None else levels[first]

    pools = [np.arange(len(kinds))]
    numbers = {pools[0].tobytes(): 0}
    ending: list[float] = []
    steps: list[tuple[int, int, float]] = []
    work = kinds.size
    for number, pool in enumerate(pools):  # which grows as smaller pools are found
        ending.append(0.0)
        if len(pool) == 1:
            continue
        for left, count in _successors(survivors(kinds[pool], first), counts, levels):
            successor = pool[left]
            if not len(successor):
                ending[-1] += count
                continue
            key = successor.tobytes()
            if key not in numbers:
                numbers[key] = len(pools)
                pools.append(successor)
                work += len(successor) * len(counts) if len(successor) > 1 else 1
                if work > _MOST_WORK:
                    raise TooManyPools
            steps.append((number, numbers[key], count))
    members = np.zeros((len(pools), len(kinds)), dtype=bool)
    for number, pool in enumerate(pools):
        members[number, pool] = True
    flow = _Flow(members, steps, np.array(ending))
    cases = table.shape[1]
    ended = flow.to_the_end() if depth is None or depth >= cases else flow.within(depth, cases)
    if len(kinds) <= _FEW:  # a row for every subset, so that last bits don't depend on which pools can be reached
        number = (1 << len(kinds)) - 1 - members @ (1 << np.arange(len(kinds)))
        found, members = members, np.zeros((1 << len(kinds), len(kinds)), dtype=bool)
        members[number] = found
        ended = np.bincount(number, ended, minlength=len(members))
    candidates = members * sizes
    chances = (ended / np.maximum(candidates.sum(axis=1), 1)) @ candidates
    return np.asarray((chances / sizes)[owner])


class _Flow:
    """How probability flows between pools, of which pool 0 is the whole population."""

    def __init__(self, members: Mask, steps: list[tuple[int, int, float]], ending: Floats) -> None:
        source, target, cases = zip(*steps, strict=True) if steps else ((), (), ())
        self.sizes, self.ending = members.sum(axis=1), ending
        self.rank = np.lexsort(members.T).argsort()
        self.source, self.target = np.array(source, dtype=np.intp), np.array(target, dtype=np.intp)
        self.cases = np.array(cases, dtype=np.float64)
        self.changing = np.bincount(self.source, self.cases, minlength=len(members)) + ending

    def to_the_end(self) -> Floats:
        """The chance to end in each pool when every case may be looked at: a pool is left for certain if it can be."""
        pools = len(self.ending)
        share = self.cases / self.changing[self.source]
        sizes = self.sizes[self.source]
        # The largest first: nothing can flow into them any more.
        order = np.lexsort((self.rank[self.source], -sizes))
        arriving = np.zeros(pools)
        arriving[0] = 1
        for some in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
            arriving += np.bincount(
                self.target[some], arriving[self.source[some]] * share[some], minlength=pools
            )
        return arriving * np.divide(self.ending, self.changing, out=np.ones(pools), where=self.changing > 0)

    def within(self, depth: int, cases: int) -> Floats:
        """The chance to end in each pool when `depth` of the cases are looked at, followed case by case.

        The chance that the next case changes the pool depends on how many are still to come.
        """
        pools, changing = len(self.ending), self.changing
        slowest = changing[changing > 0].min(initial=cases) / cases
        if min(depth, -np.log(_NOTHING) / slowest) * len(self.source) > _MOST_WORK:
            raise TooManyPools
        here, ended = np.zeros(pools), np.zeros(pools)
        here[0] = 1
        for used in range(depth):
            each = here / (cases - used)
            ended += each * self.ending
            here = each * np.maximum(cases - used - changing, 0)
            here += np.bincount(self.target, each[self.source] * self.cases, minlength=pools)
            if here[changing > 0].sum() < _NOTHING:
                break
        return ended + here


def _successors(passing: Mask, counts: Floats, levels: Indices | None) -> list[tuple[Mask, float]]:
    """The different pools that the next case can leave, and by how many cases each."""
    changes = ~passing.all(axis=0)
    if levels is not None and changes.any():
        changes &= levels == levels[changes].min()
    first, weights = _distinct_columns(passing[:, changes], counts[changes])
    return list(zip(passing[:, changes][:, first].T, weights.tolist(), strict=True))


def _distinct_columns(table: npt.NDArray[np.generic], counts: Floats | None) -> tuple[Indices, Floats]:
    """The number of one column of each kind, and how many there are of it, or how much they count together."""
    if not table.shape[1]:
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    bits = table.dtype in (np.bool_, np.uint8) and table.max() <= 1
    rows = np.ascontiguousarray(np.packbits(table, axis=0).T if bits else table.T)
    keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    return first, np.bincount(kind, weights=np.ones(len(kind)) if counts is None else counts)


def dense_ranks(table: ErrorTable) -> npt.NDArray[np.integer]:
    """Each error's rank among all of its case, equals alike: all that lexicase sees of it."""
    order = np.argsort(table, axis=0, kind="stable")
    errors = np.take_along_axis(table, order, axis=0)
    steps = np.zeros(table.shape, dtype=np.uint8 if len(table) < 256 else np.int32)
    steps[1:] = errors[1:] != errors[:-1]
    np.cumsum(steps, axis=0, out=steps)
    ranks = np.empty_like(steps)
    np.put_along_axis(ranks, order, steps, axis=0)
    return ranks
