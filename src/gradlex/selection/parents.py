"""Many parents by lexicase selection from one error table: all of them at once, a case at a time.

Each parent has its own uniform case order; the answer is distributed exactly as by `Lexicase` on it. Three facts make it
quick. A case that was used never changes the pool again, so cases may be drawn with replacement: repeats do nothing, and
the order of first occurrences is a uniform permutation. The best candidates of the whole population on a case are found
once for all parents; only a pool that holds none of them takes a look at its members' errors. And where few share the
best error, they are among the few places that are no worse than the best of a sample of the candidates.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gradlex.selection.order import CaseOrder
from gradlex.selection.protocol import ErrorTable, Indices, Mask, worst_for_nan

Words: TypeAlias = npt.NDArray[np.uint64]
"""(pools, words): the bytes of a pool, bit i of byte b for candidate 8 b + i."""

_SAMPLE = 64
_LEAST_DRAWS = 16
"""Cases drawn with replacement before a whole permutation is: an eighth of those that can matter, but at least these."""
_BLOCK = 1 << 23
"""How many (parent, candidate) or (parent, case) pairs are held at once, at most."""
_PART = 1 << 21
"""How many bytes of the table are compared at a time, so that they stay in the cache."""


def lexicase_parents(
    table: ErrorTable,
    k: int,
    rng: np.random.Generator,
    *,
    ends: bool,
    depth: int | None,
    order: CaseOrder | None,
) -> Indices:
    """`k` independent parents from a (candidates, cases) table; a pool that fails a case `ends`, or survives whole.

    NaN and negative infinity count as the worst.
    """
    filters = _Filters(table, ends=ends)
    parents = np.empty(k, dtype=np.intp)
    block = max(64, _BLOCK // max(table.shape))
    for start in range(0, k, block):
        pools = _Pools(filters, min(block, k - start))
        if depth is None and (order is None or order.levels is None):
            draws = max(_LEAST_DRAWS, len(filters.telling) // 8)
            sums = (
                None if order is None or order.weights is None else np.cumsum(order.weights[filters.telling])
            )
            while len(pools.active) and draws:
                pools.advance(_drawn(filters.telling, sums, len(pools.active), rng))
                draws -= 1
        if len(pools.active):
            pools.follow(_orders(filters, len(pools.active), rng, order)[:, :depth])
        parents[start : start + block] = pools.pick(rng)
    return parents


def _drawn(
    cases: Indices, sums: npt.NDArray[np.float64] | None, count: int, rng: np.random.Generator
) -> Indices:
    """A case for each of so many parents, with replacement; by the running `sums` of the weights, if given."""
    if sums is None:
        return np.asarray(cases.take(rng.integers(len(cases), size=count)))
    places = np.searchsorted(sums, rng.random(count) * sums[-1], side="right")
    return np.asarray(cases.take(np.minimum(places, len(cases) - 1)))


def _orders(
    filters: _Filters, count: int, rng: np.random.Generator, order: CaseOrder | None
) -> npt.NDArray[np.integer]:
    """Whole orders, (count, cases)."""
    cases = filters.table.shape[1]
    if order is not None:
        return np.argsort(order.keys(count, cases, rng), axis=1)
    orders = np.empty((count, cases), dtype=np.int32)
    for each in orders:
        each[:] = rng.permutation(cases)  # quicker than `permuted`
    return orders


class _Filters:
    """What each case lets pass: the best on it, or only candidates who solve it where failing `ends` the selection."""

    def __init__(self, table: ErrorTable, *, ends: bool) -> None:
        self.table, self.ends = table, ends
        population, cases = table.shape
        self.everyone = _packed(np.arange(-(-population // 64) * 64)[None] < population)[0]
        """The pool of all candidates, (words,)."""
        sample = worst_for_nan(table[:: max(1, population // _SAMPLE)])
        self._guess = np.zeros(cases, dtype=table.dtype) if ends else sample.min(axis=0)
        """No candidate that is worse can be best."""
        self.bits: Words | None = None
        """(cases, words): the best on each case; None where few share the best error."""
        self.telling = np.arange(cases)
        """The cases that can matter."""
        if not ends and np.count_nonzero(sample == self._guess) <= sample.size // 8:
            if table.dtype.kind == "f" and not np.isfinite(self._guess).all():
                self.table = worst_for_nan(table)
            self._low = self.table <= self._guess
            return
        self.bits, self.two_levels = _compared(table, self._guess, sample.max(axis=0))
        if not (ends or self.two_levels):
            self.table = worst_for_nan(table)
            lowest = self.table.min(axis=0)
            wrong = np.arange(cases) if self.table is not table else np.flatnonzero(lowest != self._guess)
            if len(wrong):
                self.bits[wrong] = _compared(self.table[:, wrong], lowest[wrong], lowest[wrong])[0]
        tells = self.bits[:, 0] != self.everyone[0]
        tells |= (self.bits != self.everyone).any(axis=1) if not tells.all() else False
        self.telling = np.flatnonzero(tells)

    def filter(self, pools: Words | None, cases: Indices) -> tuple[Words, Mask]:
        """Each pool (None: everyone) after its case, and whether it is done: one candidate, or all failed."""
        if self.bits is None:
            left = self._first(cases) if pools is None else self._looked_up(pools, cases)
            return left, _alone(left)
        left = self.bits.take(cases, axis=0)
        if pools is not None:
            left &= pools
        missed = np.flatnonzero(~left.any(axis=1))
        if len(missed):
            held = pools[missed] if pools is not None else np.tile(self.everyone, (len(missed), 1))
            left[missed] = held if self.ends or self.two_levels else self._looked_up(held, cases[missed])
        done = _alone(left)
        if self.ends:
            done[missed] = True
        return left, done

    def _first(self, cases: Indices) -> Words:
        """The best of the population on each case, where few are."""
        different, number = np.unique(cases, return_inverse=True)
        candidate, column = np.divmod(np.flatnonzero(self._low.take(different, axis=1)), len(different))
        errors = _worst(self.table[candidate, different[column]])
        lowest = np.full(len(different), np.inf)
        np.minimum.at(lowest, column, errors)
        kept = errors == lowest[column]
        best = np.zeros((len(different), -(-len(self.table) // 64) * 64), dtype=bool)
        best[column[kept], candidate[kept]] = True
        return np.asarray(_packed(best)[number])

    def _looked_up(self, pools: Words, cases: Indices) -> Words:
        """The best of each pool on its case, from the errors themselves."""
        members = _unpacked(pools)
        place = np.flatnonzero(members)
        owner, candidate = np.divmod(place, members.shape[1])
        errors = _worst(self.table[candidate, cases[owner]])
        lowest = np.minimum.reduceat(errors, np.flatnonzero(np.diff(owner, prepend=-1)))
        members.reshape(-1)[place[errors > lowest[owner]]] = False
        return _packed(members)

    def alike(self, pools: Words) -> Mask:
        """Whether no case separates the members of a pool."""
        different, number = np.unique(pools, axis=0, return_inverse=True)
        rows = (self.table[np.flatnonzero(members)] for members in _unpacked(different))
        same = [bool((row == row[0] if not self.ends else (row == 0) == (row[0] == 0)).all()) for row in rows]
        return np.array(same)[number.ravel()]


class _Pools:
    """The pools of many parents, each filtered by its own cases."""

    def __init__(self, filters: _Filters, count: int) -> None:
        self._filters = filters
        self._pools: Words | None = None
        self._ended = np.tile(filters.everyone, (count, 1))
        done = len(filters.table) == 1 or not len(filters.telling)
        self.active = np.arange(0 if done else count)
        """The parents whose selection goes on."""

    def advance(self, cases: Indices) -> None:
        """Filter the pool of each active parent by its case."""
        self._pools, done = self._filters.filter(self._pools, cases)
        self._end(done)

    def follow(self, orders: npt.NDArray[np.integer]) -> None:
        """Filter the pool of each active parent by its row of `orders`, (active, cases), to the end."""
        row = np.zeros(len(self._ended), dtype=np.intp)
        row[self.active] = np.arange(len(self.active))
        for step in range(orders.shape[1]):
            if not len(self.active):
                return
            self.advance(orders[row[self.active], step].astype(np.intp))
            if step >= 31 and (step + 1).bit_count() == 1 and self._pools is not None and len(self.active):
                self._end(self._filters.alike(self._pools))
        if self._pools is not None:
            self._end(np.ones(len(self.active), dtype=bool))

    def _end(self, done: Mask) -> None:
        assert self._pools is not None
        if done.any():
            self._ended[self.active[done]] = self._pools[done]
            self._pools, self.active = self._pools[~done], self.active[~done]

    def pick(self, rng: np.random.Generator) -> Indices:
        """A candidate of each pool, uniformly."""
        place = np.flatnonzero(_unpacked(self._ended))
        owner, candidate = np.divmod(place, 64 * self._ended.shape[1])
        sizes = np.bincount(owner)
        rank = np.zeros(len(sizes), dtype=np.intp)
        several = sizes > 1
        if several.any():
            rank[several] = rng.integers(sizes[several])
        return np.asarray(candidate[np.cumsum(sizes) - sizes + rank])


def _compared(table: ErrorTable, best: ErrorTable, other: ErrorTable) -> tuple[Words, bool]:
    """Which candidates have the `best` error of each case, (cases, words); and whether the rest all have the `other`."""
    population, cases = table.shape
    octets = np.zeros((-(-population // 64) * 8, cases), dtype=np.uint8)
    step = max(1, _PART // (8 * cases * table.itemsize)) * 8
    equal, second = np.zeros((2, step, cases), dtype=bool)
    two_levels = True
    for start in range(0, population, step):
        part = table[start : start + step]
        size = len(part)
        np.equal(part, best, out=equal[:size])
        equal[size:] = False
        if two_levels:
            np.equal(part, other, out=second[:size])
            second |= equal
            two_levels = bool(second[:size].all())
        rows = equal.view(np.uint8).reshape(-1, 8, cases)
        packed = octets[start // 8 : start // 8 + len(rows)]
        rows = rows[: len(packed)]
        packed[:] = rows[:, 7]
        for bit in range(6, -1, -1):
            packed += packed  # a shift by one, but quicker
            packed |= rows[:, bit]
    return np.ascontiguousarray(octets.T).view(np.uint64), two_levels


def _packed(members: npt.NDArray[np.generic]) -> Words:
    """(pools, candidates) as words; the number of candidates is a multiple of 64."""
    return np.packbits(members, axis=1, bitorder="little").view(np.uint64)


def _unpacked(pools: Words) -> npt.NDArray[np.bool_]:
    return np.unpackbits(pools.view(np.uint8), axis=1, bitorder="little").view(np.bool_)


def _alone(pools: Words) -> Mask:
    """Whether each pool has one member."""
    alone = np.count_nonzero(pools, axis=1) == 1
    few = np.flatnonzero(alone)
    word = pools[few].max(axis=1)
    alone[few] = (word & (word - np.uint64(1))) == 0
    return np.asarray(alone)


def _worst(errors: ErrorTable) -> ErrorTable:
    return np.where(np.isfinite(errors), errors, np.inf) if errors.dtype.kind == "f" else errors
