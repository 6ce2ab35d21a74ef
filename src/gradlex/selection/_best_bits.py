"""Who is the best on each case of a table of errors: as bits, a word for 64 candidates, or as lists.

A large table takes longer to read than all that follows, so it is read once, in parts that stay in the cache. Where a
sample shows that many share the best error, each part is compared with the sample's best at once, which later turns
out to be right for nearly every case. Where few do, only the lowest error of every few candidates is kept, and the few
places that can hold a best one are looked at again when their case is used.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradlex.selection._cases import worst_for_nan
from gradlex.selection._protocol import ErrorTable, Indices

Words = npt.NDArray[np.uint64]
"""Bit i of word w is candidate 64 w + i."""

_GROUP = 32
"""The lowest error is kept for every so many candidates."""
_PART = 1 << 21
"""How many bytes of the table are worked on at a time."""
_FEW = 4
"""Lists are made of cases whose best are in so many groups on average, at most."""


class Best:
    """Who has the lowest error of each case of a (candidates, cases) table; only an error of 0 will do if `zero`."""

    def __init__(self, table: ErrorTable, *, zero: bool) -> None:
        self.table = table
        """The table with NaN and negative infinity turned into infinity, the worst."""
        self._zero = zero
        self._read()
        if table.dtype.kind == "f" and not zero and not (self._lowest > -np.inf).all():
            self.table = worst_for_nan(table)
            self._read()

    def _read(self) -> None:
        """The one pass: the bits where many share the best error, otherwise the lowest error of each group."""
        population, cases = self.table.shape
        sample = self.table[:: max(1, population // 64)]
        self._bits: Words | None = None
        if self._zero:
            self._lowest = np.zeros(cases, self.table.dtype)
            self._bits = _compared(self.table, self._lowest)
        elif _many_share_the_best(sample[:, :: max(1, cases // 128)]):
            guess = sample.min(axis=0)
            self._lowest = guess.copy()
            self._bits = _compared(self.table, guess, self._lowest)
            wrong = np.flatnonzero(self._lowest != guess)
            if len(wrong):
                self._bits[wrong] = _compared(self.table, self._lowest[wrong], columns=wrong)
        else:
            self._lows = _lowest_of_groups(self.table)
            self._lowest = self._lows.min(axis=0)

    @property
    def bits(self) -> Words:
        """The best of each case, (cases, words)."""
        if self._bits is None:
            self._bits = _compared(self.table, self._lowest)
        return self._bits

    @cached_property
    def everyone(self) -> Words:
        """The bits of all candidates, (words,)."""
        same = np.zeros((len(self.table), 1), dtype=np.uint8)
        return _compared(same, same[0]).reshape(-1)

    def telling(self) -> Indices:
        """The cases on which not everyone is among the best: no other can matter."""
        if self._bits is not None:
            tells = self._bits[:, 0] != self.everyone[0]
            rest = np.flatnonzero(~tells)
            tells[rest] = (self._bits[rest] != self.everyone).any(axis=1)
            return np.flatnonzero(tells)
        tells = self.table[0] != self.table[-1]
        rest = np.flatnonzero(~tells)
        step = max(1, _PART // (len(self.table) * self.table.itemsize))
        for start in range(0, len(rest), step):
            some = rest[start : start + step]
            tells[some] = (self.table[:, some] != self._lowest[some]).any(axis=0)
        return np.flatnonzero(tells)

    def errors(self, candidate: Indices, cases: Indices) -> ErrorTable:
        """The error of each candidate on its case, of the shape that both have together."""
        if self.table.flags.c_contiguous:  # half the time
            return np.asarray(self.table.reshape(-1).take(candidate * self.table.shape[1] + cases))
        return np.asarray(self.table[candidate, cases])

    def lists(self, cases: Indices) -> tuple[Indices, Indices] | None:
        """The best on each of some cases, in rising order: their numbers among the cases, and the candidates.

        None where bits are known, or the better way since the lists would be long.
        """
        if self._bits is not None:
            return None
        lowest = self._lowest[cases]
        places = np.flatnonzero(self._lows.take(cases, axis=1) == lowest)
        if len(places) > _FEW * len(cases):
            return None
        group, number = np.divmod(places, len(cases))
        order = np.argsort(number, kind="stable")  # group by group so far
        group, number = group[order], number[order]
        candidate = group[:, None] * _GROUP + np.arange(_GROUP)
        beyond = candidate >= len(self.table)
        candidate[beyond] = 0
        equal = self.errors(candidate, cases[number][:, None]) == lowest[number][:, None]
        equal &= ~beyond
        places = np.flatnonzero(equal)
        return number[places // _GROUP], candidate.reshape(-1)[places]


def _many_share_the_best(sample: ErrorTable) -> bool:
    return bool(np.count_nonzero(sample == sample.min(axis=0)) > sample.size // 8)


def _lowest_of_groups(table: ErrorTable) -> ErrorTable:
    """The lowest error of every group of candidates, (groups, cases)."""
    whole, rest = divmod(len(table), _GROUP)
    lows = np.empty((whole + (rest > 0), table.shape[1]), dtype=table.dtype)
    step = max(1, _PART // (_GROUP * table.shape[1] * table.itemsize))
    for start in range(0, whole, step):
        stop = min(start + step, whole)
        groups = table[start * _GROUP : stop * _GROUP].reshape(stop - start, _GROUP, -1)
        groups.min(axis=1, out=lows[start:stop])
    if rest:
        table[whole * _GROUP :].min(axis=0, out=lows[whole])
    return lows


def _compared(
    table: ErrorTable, with_: ErrorTable, lowest: ErrorTable | None = None, *, columns: Indices | None = None
) -> Words:
    """Who has a given error on each case, (cases, words), of some columns or all; `lowest` falls to what there is."""
    population, cases = len(table), len(with_)
    if table.dtype.kind == "u" and not with_.any():
        lowest = None  # nothing is lower
    octets = np.zeros(((population + 63) // 64 * 8, cases), dtype=np.uint8)  # bit i: candidate 8 o + i
    step = max(1, _PART // (8 * cases * table.itemsize)) * 8
    equal = np.zeros((min(step, len(octets) * 8), cases), dtype=bool)
    for start in range(0, population, step):
        part = table[start : start + step]
        if columns is not None:
            part = part.take(columns, axis=1)
        np.equal(part, with_, out=equal[: len(part)])
        equal[len(part) :] = False
        if lowest is not None:
            np.minimum(lowest, part.min(axis=0), out=lowest)
        _pack(equal, octets[start // 8 :])
    return np.ascontiguousarray(octets.T).view("<u8").astype(np.uint64, copy=False)


def _pack(equal: npt.NDArray[np.bool_], out: npt.NDArray[np.uint8]) -> None:
    """Every eight rows as a row of bytes, into the first rows of `out`, as many as there is room for."""
    rows = equal.view(np.uint8).reshape(len(equal) // 8, 8, equal.shape[1])[: len(out)]
    out = out[: len(rows)]
    out[:] = rows[:, 7]
    for bit in range(6, -1, -1):
        out += out  # a shift by one, but quicker
        out |= rows[:, bit]


def members_of(pools: Words) -> tuple[Indices, Indices]:
    """The members of (n, words) pools, pool by pool in rising order: whose they are, and which candidates."""
    word = np.flatnonzero(pools != 0)
    octets = pools.reshape(-1)[word].astype("<u8", copy=False).view(np.uint8)
    place = np.flatnonzero(np.unpackbits(octets, bitorder="little").view(bool))
    owner, word = np.divmod(word[place >> 6], pools.shape[1])
    return owner, 64 * word + (place & 63)


def with_members(owner: Indices, candidate: Indices, shape: tuple[int, int]) -> Words:
    """The pools of this shape, (n, words), that have these members, which are sorted as `members_of` gives them."""
    pools = np.zeros(shape, dtype=np.uint64)
    place = owner * shape[1] + (candidate >> 6)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    bits = np.uint64(1) << (candidate & 63).astype(np.uint64)
    pools.flat[place[starts]] = np.bitwise_or.reduceat(bits, starts)
    return pools
