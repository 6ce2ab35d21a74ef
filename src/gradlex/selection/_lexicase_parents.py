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

from gradlex.selection._best_bits import Words, best_bits, members_of, with_members
from gradlex.selection._cases import ResolvedCases
from gradlex.selection._lexicase import OnAllFail
from gradlex.selection._pools import dense_ranks, distinct_columns
from gradlex.selection._protocol import ErrorTable, Indices

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
    """`k` independent parents from a (candidates, cases) table; "random" needs 0/1 errors.

    NaN and negative infinity count as the worst. `order` says which cases come sooner, and cannot be combined with
    `depth`.
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
    """What each case lets pass: the bits of its best candidates, (cases, words)."""

    def __init__(self, table: ErrorTable, on_all_fail: OnAllFail, order: ResolvedCases | None = None) -> None:
        self.ends = on_all_fail == "random"
        self.population, self.cases = table.shape
        self.table, self.best = best_bits(table, zero=self.ends)
        self.order = order
        all_of_them = np.arange(self.population)
        self.everyone = with_members(np.zeros_like(all_of_them), all_of_them, (1, self.best.shape[1]))
        self.telling = np.flatnonzero((self.best != self.everyone).any(axis=1))
        """The cases on which not everyone is among the best: no other can matter."""
        self.looked_up = 0
        """How many errors were looked up in the table itself."""
        self._sums: npt.NDArray[np.float64] | None = None
        if order is not None and order.weights is not None:
            self._sums = np.cumsum(order.weights[self.telling])

    def draw(self, count: int, rng: np.random.Generator) -> Indices:
        """Cases that can matter, with replacement, in proportion to their weights."""
        if self._sums is None:
            return np.asarray(self.telling[rng.integers(len(self.telling), size=count)])
        places = np.searchsorted(self._sums, rng.random(count) * self._sums[-1], side="right")
        return np.asarray(self.telling[np.minimum(places, len(self.telling) - 1)])

    @property
    def all_fail_alike(self) -> bool:
        """Whether a pool without a case's best is known to pass it whole.

        It takes a look at the whole table, which pays where it is small or many errors have been looked up.
        """
        pays = self.table.size <= 1 << 19 or self.looked_up > self.table.size // 8
        return self.ends or (pays and self._two_levels)

    @cached_property
    def _two_levels(self) -> bool:
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
    final = np.repeat(filters.everyone, k, axis=0)  # (parents, words)
    telling = len(filters.telling)
    # How many of the first `depth` cases of each order can matter.
    left = (
        np.full(k, telling)
        if depth is None
        else rng.hypergeometric(telling, filters.cases - telling, depth, k)
    )
    active = np.flatnonzero(left > 0)
    pools, left = final[active], left[active]
    drawn = np.empty((len(active), 0), dtype=np.intp)
    levels = (
        filters.order is not None and filters.order.levels is not None
    )  # one after another: whole orders only
    for _ in range(0 if levels else min(max(_LEAST_DRAWS, telling // 8), _MOST_DRAWS)):
        if not len(active):
            break
        cases = filters.draw(len(active), rng)
        pools, ended = _filter(filters, pools, cases)
        if depth is not None:
            left -= (drawn != cases[:, None]).all(axis=1)
            drawn = np.column_stack([drawn, cases])
            ended |= left == 0
        if ended.any():
            final[active[ended]] = pools[ended]
            pools, active, left, drawn = pools[~ended], active[~ended], left[~ended], drawn[~ended]
    if len(active) and depth is None:
        _exhaust(filters, pools, final, active, rng)
    elif len(active):
        _follow(filters, pools, final, active, _rest_of_orders(filters, drawn, left, rng))
    return _pick(final, rng)


def _rest_of_orders(filters: _Filters, drawn: Indices, left: Indices, rng: np.random.Generator) -> Indices:
    """For each parent, `left` cases more that it has not drawn yet, in random order: (parents, cases).

    Shorter orders are filled up with a case that was drawn, which changes nothing.
    """
    orders = np.repeat(drawn[:, :1], int(left.max()), axis=1)
    most = min(len(filters.telling), orders.shape[1] + drawn.shape[1])
    for parent, number in enumerate(left):
        sample = filters.telling[rng.choice(len(filters.telling), most, replace=False)]
        orders[parent, :number] = sample[~np.isin(sample, drawn[parent])][:number]
    return orders


def _exhaust(
    filters: _Filters, pools: Words, final: Words, active: Indices, rng: np.random.Generator
) -> None:
    """Take the parents that are still open through a whole permutation of the cases."""
    if filters.order is not None:
        orders = filters.telling[
            np.argsort(filters.order.races(len(active), rng)[:, filters.telling], axis=1)
        ]
    elif filters.population <= 64:  # few candidates disagree in few ways: only the order of those matters
        filters, counts = filters.kinds
        # In a random order, kinds first occur as in a race of exponential times with the counts as rates.
        orders = np.argsort(rng.exponential(size=(len(active), len(counts))) / counts, axis=1)
    else:
        orders = np.tile(filters.telling.astype(np.int32), (len(active), 1))
        rng.permuted(orders, axis=1, out=orders)  # in place and small: a table of bytes is not much larger
    _follow(filters, pools, final, active, orders)


def _follow(filters: _Filters, pools: Words, final: Words, active: Indices, orders: Indices) -> None:
    """Filter each pool by its cases of `orders`, (parents, cases), to the end."""
    rows = np.arange(len(active))
    for step in range(orders.shape[1]):
        pools, ended = _filter(filters, pools, orders[rows, step])
        if ended.any():
            final[active[ended]] = pools[ended]
            pools, active, rows = pools[~ended], active[~ended], rows[~ended]
            if not len(active):
                return
    final[active] = pools


def _filter(filters: _Filters, pools: Words, cases: Indices) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Each pool after its case, and whether it is done: one candidate, or all failed under the paper's rule."""
    left = pools & filters.best[cases]
    union = _union(left)
    missed = np.flatnonzero(union == 0)
    if len(missed):
        alike = filters.all_fail_alike
        left[missed] = pools[missed] if alike else _best_in_pool(filters, pools[missed], cases[missed])
        union[missed] = _union(left[missed])
    ended = np.zeros(len(cases), dtype=bool)
    few = np.flatnonzero(union & (union - np.uint64(1)) == 0)  # no word has two bits
    ended[few] = left.shape[1] == 1 or np.count_nonzero(left[few], axis=1) == 1
    if filters.ends:
        ended[missed] = True
    return left, ended


def _union(pools: Words) -> Words:
    """The bits of all words of each pool."""
    return np.asarray(pools[:, 0].copy() if pools.shape[1] == 1 else np.bitwise_or.reduce(pools, axis=1))


def _best_in_pool(filters: _Filters, pools: Words, cases: Indices) -> Words:
    """The best of each pool on its case, found from the errors themselves."""
    best = np.empty_like(pools)
    step = max(1, (_BLOCK >> 2) // filters.population)
    for start in range(0, len(pools), step):
        some = pools[start : start + step]
        owner, candidate = members_of(some)
        errors = filters.table[candidate, cases[start : start + step][owner]]
        lowest = np.minimum.reduceat(errors, np.flatnonzero(np.diff(owner, prepend=-1)))
        kept = errors == lowest[owner]
        best[start : start + step] = with_members(owner[kept], candidate[kept], some.shape)
        filters.looked_up += len(errors)
    return best


def _pick(pools: Words, rng: np.random.Generator) -> Indices:
    """One candidate of each pool, uniformly."""
    owner, candidate = members_of(pools)
    sizes = np.bincount(owner, minlength=len(pools))
    rank = np.zeros(len(pools), dtype=np.intp)
    several = sizes > 1
    if several.any():
        rank[several] = rng.integers(sizes[several])
    return np.asarray(candidate[np.cumsum(sizes) - sizes + rank])
