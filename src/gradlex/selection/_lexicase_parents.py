"""Many parents by lexicase selection from one error table: every pool a row of bits, all parents at once.

Each parent has its own uniform case order; the answer is distributed exactly as by `lexicase` on it. Two
facts make it quick. A case that was used never changes the pool again, so cases may be drawn with
replacement: repeats do nothing, and the order of first occurrences is a uniform permutation. And only the
population's best on a case are needed as bits; where a pool holds none of them, the errors decide.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradlex.selection._cases import ResolvedCases
from gradlex.selection._lexicase import OnAllFail
from gradlex.selection._pools import dense_ranks, distinct_columns
from gradlex.selection._protocol import ErrorTable, Indices

Words = npt.NDArray[np.uint64]

_LEAST_DRAWS, _MOST_DRAWS = 16, 256
"""Cases drawn with replacement before a whole permutation is: an eighth of those that can matter, within these."""
_BLOCK = 1 << 22
"""How many (parent, candidate) or (parent, case) pairs are held at once, at most."""


def lexicase_parents(
    table: ErrorTable,
    k: int,
    rng: np.random.Generator,
    *,
    on_all_fail: OnAllFail = "survive",
    depth: int | None = None,
    order: ResolvedCases | None = None,
) -> Indices:
    """`k` independent parents from a checked (candidates, cases) table; "random" needs 0/1 errors.

    `order` says which cases come sooner, and cannot be combined with `depth`.
    """
    filters = _Filters(table, on_all_fail, order)
    limit = None if depth is None or depth >= table.shape[1] else depth
    parents = np.empty(k, dtype=np.intp)
    block = max(64, _BLOCK // max(len(table), len(filters.telling)))
    for start in range(0, k, block):
        chosen = parents[start : start + block]  # a view
        chosen[:] = _select(filters, len(chosen), rng, limit)
    return parents


class _Filters:
    """What each case lets pass: the bits of its best candidates, (words, cases)."""

    def __init__(self, table: ErrorTable, on_all_fail: OnAllFail, order: ResolvedCases | None = None) -> None:
        self.table, self.order = table, order
        self.ends = on_all_fail == "random"
        self.population, self.cases = table.shape
        best = np.zeros(self.cases, table.dtype) if self.ends else table.min(axis=0)
        self.best = np.empty(((self.population + 63) // 64, self.cases), dtype=np.uint64)
        for start in range(0, self.cases, 256):  # in parts: a mask of everything would be large
            part = slice(start, start + 256)
            self.best[:, part] = pack(table[:, part] == best[part])
        self.telling = np.flatnonzero(table.max(axis=0) != best)
        """The cases on which not everyone is among the best: no other can matter."""
        self._sums: npt.NDArray[np.float64] | None = None
        if order is not None and order.weights is not None:
            self._sums = np.cumsum(order.weights[self.telling])

    def draw(self, count: int, rng: np.random.Generator) -> Indices:
        """Cases that can matter, with replacement, in proportion to their weights."""
        if self._sums is None:
            return np.asarray(self.telling[rng.integers(len(self.telling), size=count)])
        places = np.searchsorted(self._sums, rng.random(count) * self._sums[-1], side="right")
        return np.asarray(self.telling[np.minimum(places, len(self.telling) - 1)])

    @cached_property
    def two_levels(self) -> bool:
        """Whether no case has more than two different errors: a pool without its best then all fail it."""
        parts = (self.table[start : start + 256] for start in range(0, self.population, 256))
        low, high = self.table.min(axis=0), self.table.max(axis=0)
        return all(bool(((part == low) | (part == high)).all()) for part in parts)

    @cached_property
    def kinds(self) -> tuple[_Filters, Indices]:
        """The filters of the different cases, and how many cases there are of each."""
        table = self.table[:, self.telling]
        ranks = (table != 0).astype(np.uint8) if self.ends else dense_ranks(table)
        columns, counts = distinct_columns(ranks)
        return _Filters(columns, "random" if self.ends else "survive"), counts


def _select(filters: _Filters, k: int, rng: np.random.Generator, depth: int | None) -> Indices:
    """`k` parents, every one by its own order of cases."""
    everyone = pack(np.ones((filters.population, 1), dtype=bool))
    pools = np.repeat(everyone, k, axis=1)  # (words, parents)
    final = pools.copy()
    telling = len(filters.telling)
    # How many of the first `depth` cases of each order can matter.
    left = (
        np.full(k, telling)
        if depth is None
        else rng.hypergeometric(telling, filters.cases - telling, depth, k)
    )
    active = np.flatnonzero(left > 0)
    pools, left = pools[:, active], left[active]
    drawn = np.empty((0, len(active)), dtype=np.intp)
    levels = (
        filters.order is not None and filters.order.levels is not None
    )  # one after another: whole orders only
    for _ in range(0 if levels else min(max(_LEAST_DRAWS, telling // 8), _MOST_DRAWS)):
        if not len(active):
            break
        cases = filters.draw(len(active), rng)
        pools, ended = _filter(filters, pools, cases)
        ended |= _single(pools)
        if depth is not None:
            left -= (drawn != cases).all(axis=0)
            drawn = np.vstack([drawn, cases])
            ended |= left == 0
        final[:, active[ended]] = pools[:, ended]
        pools, active, left, drawn = pools[:, ~ended], active[~ended], left[~ended], drawn[:, ~ended]
    if len(active) and depth is None:
        _exhaust(filters, pools, final, active, rng)
    elif len(active):
        _follow(filters, pools, final, active, _rest_of_orders(filters, drawn, left, rng))
    return _pick(final, filters.population, rng)


def _rest_of_orders(filters: _Filters, drawn: Indices, left: Indices, rng: np.random.Generator) -> Indices:
    """For each parent, `left` cases more that it has not drawn yet, in random order: (cases, parents).

    Shorter orders are filled up with a case that was drawn, which changes nothing.
    """
    orders = np.tile(drawn[0], (int(left.max()), 1))
    most = min(len(filters.telling), len(orders) + len(drawn))
    for parent, number in enumerate(left):
        sample = filters.telling[rng.choice(len(filters.telling), most, replace=False)]
        orders[:number, parent] = sample[~np.isin(sample, drawn[:, parent])][:number]
    return orders


def _exhaust(
    filters: _Filters, pools: Words, final: Words, active: Indices, rng: np.random.Generator
) -> None:
    """Take the parents that are still open through a whole permutation of the cases."""
    if filters.order is not None:
        orders = filters.telling[
            np.argsort(filters.order.races(len(active), rng)[:, filters.telling], axis=1)
        ].T
    elif filters.population <= 64:  # few candidates disagree in few ways: only the order of those matters
        filters, counts = filters.kinds
        # In a random order, kinds first occur as in a race of exponential times with the counts as rates.
        orders = np.argsort(rng.exponential(size=(len(active), len(counts))) / counts, axis=1).T
    else:
        rows = np.tile(filters.telling.astype(np.int32), (len(active), 1))
        orders = rng.permuted(
            rows, axis=1, out=rows
        ).T  # in place and small: a table of bytes is not much larger
    _follow(filters, pools, final, active, orders)


def _follow(filters: _Filters, pools: Words, final: Words, active: Indices, orders: Indices) -> None:
    """Filter each pool by its cases of `orders`, (cases, parents), to the end."""
    for step in range(len(orders)):
        pools, ended = _filter(filters, pools, orders[step])
        if filters.ends or step % 8 == 7:  # looking at every step would cost more than it saves
            ended |= _single(pools)
            final[:, active[ended]] = pools[:, ended]
            pools, active, orders = pools[:, ~ended], active[~ended], orders[:, ~ended]
            if not len(active):
                return
    final[:, active] = pools


def _filter(filters: _Filters, pools: Words, cases: Indices) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Each pool after its case, and whether the case ended it (all failed, under the paper's rule)."""
    left = pools & filters.best[:, cases]
    hit = np.bitwise_or.reduce(left, axis=0) != 0
    if hit.all():
        return left, ~hit
    left = np.where(hit, left, pools)
    if filters.ends:
        return left, ~hit
    if not filters.two_levels:
        missed = np.flatnonzero(~hit)
        step = max(1, (_BLOCK >> 2) // filters.population)
        for start in range(0, len(missed), step):
            some = missed[start : start + step]
            left[:, some] = _best_in_pool(filters, pools[:, some], cases[some])
    return left, np.zeros(len(cases), dtype=bool)


def _best_in_pool(filters: _Filters, pools: Words, cases: Indices) -> Words:
    """The best of each pool on its case, found from the errors themselves."""
    members = unpack(pools, filters.population)  # (parents, candidates)
    owner, candidate = np.nonzero(members)
    errors = filters.table[candidate, cases[owner]]
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    lowest = np.minimum.reduceat(errors, starts)
    members[owner, candidate] = errors == lowest[owner]
    return pack(members.T)


def _single(pools: Words) -> npt.NDArray[np.bool_]:
    """Which pools hold one candidate: one word is not 0, and it is a power of two."""
    single = np.asarray((pools != 0).sum(axis=0) == 1)
    word = np.bitwise_or.reduce(pools[:, single], axis=0)
    single[single] = word & (word - np.uint64(1)) == 0
    return single


def _pick(pools: Words, population: int, rng: np.random.Generator) -> Indices:
    """One candidate of each pool, uniformly."""
    chosen = np.empty(pools.shape[1], dtype=np.intp)
    single = _single(pools)
    word = np.argmax(pools[:, single] != 0, axis=0)
    bit = np.frexp(pools[word, np.flatnonzero(single)].astype(np.float64))[1] - 1  # of a power of two: exact
    chosen[single] = 64 * word + bit
    several = np.flatnonzero(~single)
    members = unpack(pools[:, several], population)
    sizes = members.sum(axis=1)
    rank = rng.integers(sizes) if len(several) else sizes
    candidate = np.nonzero(members)[1]
    starts = np.cumsum(sizes) - sizes
    chosen[several] = candidate[starts + rank]
    return chosen


def pack(mask: npt.NDArray[np.bool_]) -> Words:
    """(candidates, n) bits as (words, n): bit i of word w is candidate 64 w + i."""
    width = (len(mask) + 63) // 64 * 8
    rows = np.zeros((mask.shape[1], width), dtype=np.uint8)
    bits = np.packbits(np.ascontiguousarray(mask.T), axis=1, bitorder="little")
    rows[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(rows.view("<u8").T)


def unpack(words: Words, population: int) -> npt.NDArray[np.bool_]:
    """(words, n) as (n, candidates) bits."""
    rows = np.ascontiguousarray(words.T, dtype="<u8").view(np.uint8)
    return np.unpackbits(rows, axis=1, count=population, bitorder="little").view(bool)
