"""Many parents by lexicase selection from one error table: all of them at once, a case at a time.

Each parent has its own order of the cases; the answer is distributed exactly as by `Lexicase` on it. Three facts make
it quick. A case that was used never changes the pool again, so cases may be drawn with replacement: repeats do nothing,
and the order of first occurrences is that of a permutation. The best of the whole population on a case are found once
for all parents; only a pool that holds none of them takes a look at its members' errors. And where few share the best
error, they are among the few errors that are no worse than the best of a sample of the candidates.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gradlex.selection.protocol import ErrorTable, Floats, Indices, Mask, Rng, worst_for_nan

Words: TypeAlias = npt.NDArray[np.uint64]
"""(pools, words): in a pool's bytes, bit i of byte b is candidate 8 b + i."""

_SAMPLE = 64
"""How many candidates are looked at for a first guess of the best errors, about."""
_LEAST_DRAWS = 16
"""Cases drawn with replacement before a whole permutation is: an eighth of all that can matter, but at least these."""
_BLOCK = 1 << 23
"""How many (parent, candidate) or (parent, case) pairs are held at once, at most."""
_PART = 1 << 21
"""How many bytes of the table are compared at a time, so that they stay in the cache."""


def lexicase_parents(
    table: ErrorTable,
    k: int,
    rng: Rng,
    *,
    ends: bool = False,
    depth: int | None = None,
    within: Floats | None = None,
) -> Indices:
    """`k` independent parents from a (candidates, cases) table; NaN and negative infinity count as the worst.

    If `ends`, a case that the whole pool fails ends the selection; otherwise the whole pool survives it. An error at
    most `within` above the best on a case counts as the best.
    """
    filters = _Filters(table, ends, within)
    if not len(filters.telling):
        return rng.integers(len(table), size=k)
    block = max(64, (_BLOCK if within is None else _BLOCK >> 3) // max(table.shape))
    sizes = [min(block, k - start) for start in range(0, k, block)]
    return np.concatenate([_select(filters, size, rng, depth) for size in sizes])


def _select(filters: _Filters, k: int, rng: Rng, depth: int | None) -> Indices:
    pools: Words | None = None  # everyone
    ended, active = np.empty((k, len(filters.everyone)), dtype=np.uint64), np.arange(k)

    def advance(cases: Indices) -> None:
        nonlocal pools, active
        pools, done = filters.filter(pools, cases)
        if done.any():
            ended[active[done]] = pools[done]
            pools, active = pools[~done], active[~done]

    telling = filters.telling
    if depth is None:
        for _ in range(max(_LEAST_DRAWS, len(telling) // 8)):
            advance(telling.take(rng.integers(len(telling), size=len(active)), mode="clip"))
            if not len(active):
                break
    if len(active):
        cases = filters.table.shape[1]
        orders = np.empty((len(active), cases if depth is None else min(depth, cases)), dtype=np.int32)
        for each in orders:
            each[:] = rng.permutation(cases) if depth is None else rng.choice(cases, len(each), replace=False)
        row = np.cumsum(np.isin(np.arange(k), active)) - 1
        for step in range(orders.shape[1]):
            advance(orders[row[active], step].astype(np.intp))
            if not len(active):
                break
        if pools is not None:
            ended[active] = pools

    owner, candidate = _members(ended)
    sizes = np.bincount(owner)
    rank = np.zeros(k, dtype=np.intp)
    several = sizes > 1
    if several.any():
        rank[several] = rng.integers(sizes[several])
    return np.asarray(candidate[np.cumsum(sizes) - sizes + rank])


class _Filters:
    """What each case lets pass: the best on it, or only candidates who solve it where failing `ends` the selection."""

    def __init__(self, table: ErrorTable, ends: bool, within: Floats | None) -> None:
        self.table, self.ends, self.within = table, ends, within
        population, cases = table.shape
        everyone = np.arange(-(-population // 64) * 64) < population
        self.everyone = np.packbits(everyone, bitorder="little").view(np.uint64)
        """The pool of all candidates, (words,)."""
        sample = table[:: max(1, population // _SAMPLE)]
        guess = sample.min(axis=0)
        if not np.isfinite(guess).all():
            self.table = table = worst_for_nan(table)
            sample = table[:: max(1, population // _SAMPLE)]
            guess = sample.min(axis=0)
        self._guess = np.zeros_like(guess) if ends else guess
        """No candidate that is worse can be best."""
        self.bits: Words | None = None
        """(cases, words): the best on each case; None where few share the best error."""
        self.telling = np.arange(cases)
        """The cases that can matter."""
        few = np.count_nonzero(sample[:8] == guess) <= cases
        if within is not None or (few and not ends and population > 1):
            return
        highest = sample[:8].max(axis=0)
        other = np.where(highest > guess, highest, highest.max())
        self.bits, self.two_levels = _compared(table, self._guess, other)
        """Whether no case has more than two errors: a pool without its best then all fail it."""
        if not (ends or self.two_levels):
            self.table = worst_for_nan(table)
            lowest = self.table.min(axis=0)
            self.bits = _compared(self.table, lowest, lowest)[0]
        tells = self.bits[:, 0] != self.everyone[0]
        tells |= (self.bits != self.everyone).any(axis=1) if not tells.all() else False
        self.telling = np.flatnonzero(tells)

    def filter(self, pools: Words | None, cases: Indices) -> tuple[Words, Mask]:
        """Each pool (None: everyone) after its case, and whether it is done: one candidate, or all failed."""
        if self.bits is None:
            if pools is None and self.within is None:
                return self._first(cases)
            left = self._looked_up(self._everywhere(len(cases)) if pools is None else pools, cases)
            return left, _alone(left)[0]
        left = self.bits.take(cases, axis=0)
        if pools is not None:
            left &= pools
        done, empty = _alone(left)
        missed = np.flatnonzero(empty)
        if len(missed):
            held = self._everywhere(len(missed)) if pools is None else pools[missed]
            if self.ends or self.two_levels:
                left[missed], done[missed] = held, self.ends
            else:
                left[missed] = self._looked_up(held, cases[missed])
                done[missed] = _alone(left[missed])[0]
        return left, done

    def _everywhere(self, count: int) -> Words:
        return np.tile(self.everyone, (count, 1))

    def _first(self, cases: Indices) -> tuple[Words, Mask]:
        """The best of the population on each case, where few are, and whether there is one."""
        population, columns = self.table.shape
        drawn = np.bincount(cases, minlength=columns) > 0
        different, number = np.flatnonzero(drawn), (np.cumsum(drawn) - 1)[cases]
        whole = len(different) > columns // 2
        if whole:
            different, number = np.arange(columns), cases
        guess, places, values = self._guess[different], [], []
        step = max(1, _PART // (4 * guess.nbytes))
        held = np.empty((0 if whole else step, len(different)), dtype=self.table.dtype)  # fresh memory is slow
        for start in range(0, population, step):
            some = self.table[start : start + step]
            some = some if whole else some.take(different, axis=1, out=held[: len(some)], mode="clip")
            place = np.flatnonzero(some <= guess)
            places.append(start * len(different) + place)
            values.append(some.reshape(-1)[place])  # now, while they are in the cache
        candidate, column = np.divmod(np.concatenate(places), len(different))
        errors = worst_for_nan(np.concatenate(values))
        lowest = np.full(len(different), np.inf)
        np.minimum.at(lowest, column, errors)
        best = errors == lowest[column]
        pools = self._pools(column[best], candidate[best], len(different))
        return pools[number], (np.bincount(column[best]) == 1)[number]

    def _looked_up(self, pools: Words, cases: Indices) -> Words:
        """The best of each pool on its case, from the errors themselves."""
        owner, candidate = _members(pools)
        errors = worst_for_nan(self.table[candidate, cases[owner]])
        lowest = np.minimum.reduceat(errors, np.flatnonzero(np.diff(owner, prepend=-1)))
        best = errors <= lowest[owner] + (0 if self.within is None else self.within[cases[owner]])
        return self._pools(owner[best], candidate[best], len(pools))

    def _pools(self, owner: Indices, candidate: Indices, count: int) -> Words:
        """So many pools from the lists of their members."""
        pools = np.zeros((count, len(self.everyone)), dtype=np.uint64)
        octets = pools.view(np.uint8)
        bits = np.left_shift(1, candidate & 7).astype(np.uint8)
        np.bitwise_or.at(octets.reshape(-1), owner * octets.shape[1] + (candidate >> 3), bits)
        return pools


def _compared(table: ErrorTable, best: ErrorTable, other: ErrorTable) -> tuple[Words, bool]:
    """Which candidates have the `best` error of each case, (cases, words); whether all the rest have the `other`."""
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


def _members(pools: Words) -> tuple[Indices, Indices]:
    """The members of all pools, pool by pool in rising order: whose they are, and which candidates."""
    word = np.flatnonzero(pools)
    octets = pools.reshape(-1)[word].view(np.uint8)
    place = np.flatnonzero(np.unpackbits(octets, bitorder="little").view(np.bool_))
    owner, word = np.divmod(word[place >> 6], pools.shape[1])
    return owner, 64 * word + (place & 63)


def _alone(pools: Words) -> tuple[Mask, Mask]:
    """Whether each pool has one member, and whether it has none."""
    filled = (pools != 0) @ np.ones(pools.shape[1], dtype=np.float32)  # which sums short rows quickly
    alone = filled == 1
    few = np.flatnonzero(alone)
    word = pools[few].max(axis=1)
    alone[few] = (word & (word - np.uint64(1))) == 0
    return alone, filled == 0
