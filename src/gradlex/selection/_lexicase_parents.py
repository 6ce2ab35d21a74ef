"""Many parents by lexicase selection from one error table: all of them at once, a case at a time.

Each parent has its own uniform case order; the answer is distributed exactly as by `lexicase` on it. Two
facts make it quick. A case that was used never changes the pool again, so cases may be drawn with
replacement: repeats do nothing, and the order of first occurrences is a uniform permutation. And who is the
best of the whole population on a case is found once for all parents; only a pool that holds none of them, or is
small, takes a look at its members' errors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradlex.selection._cases import ResolvedCases
from gradlex.selection._lexicase import OnAllFail
from gradlex.selection._parent_pools import Everyone, Filters, Pools
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
    filters = Filters(table, ends=on_all_fail == "random")
    draws = _Draws(filters.telling, order)
    limit = None if depth is None or depth >= table.shape[1] else depth
    parents = np.empty(k, dtype=np.intp)
    block = max(64, _BLOCK // max(len(table), len(filters.telling)))
    for start in range(0, k, block):
        chosen = parents[start : start + block]  # a view
        chosen[:] = _select(filters, draws, len(chosen), rng, limit)
    return parents


class _Draws:
    """The cases that can matter, in random order."""

    def __init__(self, cases: Indices, order: ResolvedCases | None) -> None:
        self.cases = cases
        self.order = order
        self._sums: npt.NDArray[np.float64] | None = None
        if order is not None and order.weights is not None:
            self._sums = np.cumsum(order.weights[cases])

    @property
    def most(self) -> int:
        """How many cases are drawn with replacement, at most; none with priorities, which take whole orders."""
        if self.order is not None and self.order.levels is not None:
            return 0
        return min(max(_LEAST_DRAWS, len(self.cases) // 8), _MOST_DRAWS)

    def one_each(self, count: int, rng: np.random.Generator) -> Indices:
        """A case for each of so many parents, with replacement, in proportion to the weights."""
        if self._sums is None:
            return np.asarray(self.cases.take(rng.integers(len(self.cases), size=count)))
        places = np.searchsorted(self._sums, rng.random(count) * self._sums[-1], side="right")
        return np.asarray(self.cases.take(np.minimum(places, len(self.cases) - 1)))

    def orders(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.integer]:
        """Whole orders, (count, cases)."""
        if self.order is not None:
            return np.asarray(self.cases[np.argsort(self.order.races(count, rng)[:, self.cases], axis=1)])
        orders = np.empty((count, len(self.cases)), dtype=np.int32)  # a table of bytes is not much larger
        for order in orders:
            order[:] = rng.permutation(self.cases)  # the bits of `permuted`, which is slower
        return orders


class _Answers:
    """The pools in which the selections of some parents ended."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._owners: list[Indices] = []
        self._candidates: list[Indices] = []

    def add(self, parents: Indices, pools: Pools, these: npt.NDArray[np.bool_]) -> None:
        """Some of the pools, which belong to `parents`."""
        owner, candidate = pools.members(these)
        self._owners.append(parents[owner])
        self._candidates.append(candidate)

    def pick(self, rng: np.random.Generator) -> Indices:
        """One candidate of each pool, uniformly."""
        owner, candidate = np.concatenate(self._owners), np.concatenate(self._candidates)
        candidate = candidate[np.argsort(owner, kind="stable")]
        sizes = np.bincount(owner, minlength=self.count)
        rank = np.zeros(self.count, dtype=np.intp)
        several = sizes > 1
        if several.any():
            rank[several] = rng.integers(sizes[several])
        return np.asarray(candidate[np.cumsum(sizes) - sizes + rank])


def _select(filters: Filters, draws: _Draws, k: int, rng: np.random.Generator, depth: int | None) -> Indices:
    """`k` parents, every one by its own order of cases."""
    answers = _Answers(k)
    telling = len(draws.cases)
    # How many of the first `depth` cases of each order can matter.
    left = (
        np.full(k, telling)
        if depth is None
        else rng.hypergeometric(telling, filters.cases - telling, depth, k)
    )
    pools: Pools = Everyone(k, filters.population)
    if not left.all():
        answers.add(np.arange(k), pools, left == 0)
    active = np.flatnonzero(left)
    pools, left = pools.keep(left > 0), left[active]
    drawn = np.empty((len(active), 0), dtype=np.intp)
    for _ in range(draws.most):
        if not len(active):
            break
        cases = draws.one_each(len(active), rng)
        pools, ended = pools.filter(filters, cases)
        if depth is not None:
            left -= (drawn != cases[:, None]).all(axis=1)
            drawn = np.column_stack([drawn, cases])
            ended |= left == 0
        if ended.any():
            answers.add(active, pools, ended)
            pools, active, left, drawn = pools.keep(~ended), active[~ended], left[~ended], drawn[~ended]
    if len(active) and depth is None:
        _exhaust(filters, draws, pools, active, answers, rng)
    elif len(active):
        _follow(filters, pools, active, _rest_of_orders(draws, drawn, left, rng), answers)
    return answers.pick(rng)


def _rest_of_orders(draws: _Draws, drawn: Indices, left: Indices, rng: np.random.Generator) -> Indices:
    """For each parent, `left` cases more that it has not drawn yet, in random order: (parents, cases).

    Shorter orders are filled up with a case that was drawn, which changes nothing.
    """
    orders = np.repeat(drawn[:, :1], int(left.max()), axis=1)
    most = min(len(draws.cases), orders.shape[1] + drawn.shape[1])
    for parent, number in enumerate(left):
        sample = draws.cases[rng.choice(len(draws.cases), most, replace=False)]
        orders[parent, :number] = sample[~np.isin(sample, drawn[parent])][:number]
    return orders


def _exhaust(
    filters: Filters,
    draws: _Draws,
    pools: Pools,
    active: Indices,
    answers: _Answers,
    rng: np.random.Generator,
) -> None:
    """Take the parents that are still open through a whole permutation of the cases, but for pools of clones."""
    clones = pools.alike(filters.behaviours)
    if clones.any():
        answers.add(active, pools, clones)
        pools, active = pools.keep(~clones), active[~clones]
        if not len(active):
            return
    orders: npt.NDArray[np.integer]
    if draws.order is None and filters.population <= 64:
        # Few candidates disagree in few ways, and only the order of those matters. In a random order, kinds
        # first occur as in a race of exponential times with the counts as rates.
        filters, counts = filters.kinds
        orders = np.argsort(rng.exponential(size=(len(active), len(counts))) / counts, axis=1)
    else:
        orders = draws.orders(len(active), rng)
    _follow(filters, pools, active, orders, answers)


def _follow(
    filters: Filters,
    pools: Pools,
    active: Indices,
    orders: npt.NDArray[np.integer],
    answers: _Answers,
) -> None:
    """Filter each pool by its cases of `orders`, (parents, cases), to the end."""
    rows = np.arange(len(active))
    for step in range(orders.shape[1]):
        pools, ended = pools.filter(filters, orders[rows, step])
        if ended.any():
            answers.add(active, pools, ended)
            pools, active, rows = pools.keep(~ended), active[~ended], rows[~ended]
            if not len(active):
                return
    answers.add(active, pools, np.ones(len(active), dtype=bool))
