"""A table of errors as bits: who is among the best on each case, a word for 64 candidates.

A large table takes longer to read than all that follows, so it is read once, in parts that stay in the cache. Where a
sample shows that many share the best error, each part is compared with the sample's best at once, which later turns
out to be right for nearly every case. Where few do, only the few places that can hold a best one are looked at again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradlex.selection._cases import worst_for_nan
from gradlex.selection._protocol import ErrorTable, Indices

Words = npt.NDArray[np.uint64]
"""Bit i of word w is candidate 64 w + i."""

_GROUP = 16
"""The lowest error is kept for every so many candidates."""
_PART = 1 << 21
"""How many bytes of the table are worked on at a time."""
_LOOKS = 1 << 14
"""How many groups are looked at again at a time."""


def best_bits(table: ErrorTable, *, zero: bool) -> tuple[ErrorTable, Words]:
    """Who has the lowest error of each case, (cases, words); only an error of 0 will do if `zero`.

    The table comes back with NaN and negative infinity turned into infinity, the worst.
    """
    population, cases = table.shape
    sample = table[:: max(1, population // 64)]
    guess = np.zeros(cases, table.dtype) if zero else sample.min(axis=0)
    compared = zero or np.count_nonzero(sample == guess) > sample.size // 8
    words = (population + 63) // 64
    octets = np.zeros((words * 8 if compared else 0, cases), dtype=np.uint8)  # bit i: candidate 8 o + i
    lows = np.empty((0 if zero else -(-population // _GROUP), cases), dtype=table.dtype)
    step = max(1, _PART // (_GROUP * cases * table.itemsize)) * _GROUP
    equal = np.zeros((step if compared else 0, cases), dtype=bool)
    for start in range(0, population, step):
        rows = table[start : start + step]
        if not zero:
            _lowest_of_groups(rows, lows[start // _GROUP :])
        if compared:
            np.equal(rows, guess, out=equal[: len(rows)])
            equal[len(rows) :] = False
            _pack(equal, octets[start // 8 :])
    best = guess if zero else lows.min(axis=0)
    if not zero and table.dtype.kind == "f" and not (best > -np.inf).all():
        return best_bits(worst_for_nan(table), zero=zero)
    bits = _transposed(octets) if compared else np.zeros((cases, words), dtype=np.uint64)
    wrong = np.flatnonzero(best != guess) if compared else np.arange(cases)
    if len(wrong):
        bits[wrong] = 0
        _look_again(table, best, wrong, lows, bits)
    return table, bits


def _lowest_of_groups(rows: ErrorTable, out: ErrorTable) -> None:
    """The lowest error of every group of these rows, into the first rows of `out`."""
    groups = len(rows) // _GROUP
    rows[: groups * _GROUP].reshape(groups, _GROUP, rows.shape[1]).min(axis=1, out=out[:groups])
    if groups * _GROUP < len(rows):
        rows[groups * _GROUP :].min(axis=0, out=out[groups])


def _pack(equal: npt.NDArray[np.bool_], out: npt.NDArray[np.uint8]) -> None:
    """Every eight rows as a row of bytes, into the first rows of `out`, as many as there is room for."""
    rows = equal.view(np.uint8).reshape(len(equal) // 8, 8, equal.shape[1])[: len(out)]
    out = out[: len(rows)]
    out[:] = rows[:, 7]
    for bit in range(6, -1, -1):
        out += out  # a shift by one, but quicker
        out |= rows[:, bit]


def _transposed(octets: npt.NDArray[np.uint8]) -> Words:
    return np.ascontiguousarray(octets.T).view("<u8").astype(np.uint64, copy=False)


def _look_again(table: ErrorTable, best: ErrorTable, cases: Indices, lows: ErrorTable, bits: Words) -> None:
    """Set the bits of some cases, from the errors of the groups that hold a best one."""
    chosen = slice(None) if len(cases) == len(best) else cases
    groups, places = np.nonzero(lows[:, chosen] == best[chosen])
    parts = bits.view(f"u{_GROUP // 8}")  # a group has one, (cases, groups)
    for start in range(0, len(places), _LOOKS):
        group, case = groups[start : start + _LOOKS], cases[places[start : start + _LOOKS]]
        candidate = group[:, None] * _GROUP + np.arange(_GROUP)
        if candidate[-1, -1] >= len(table):
            candidate = np.minimum(candidate, len(table) - 1)
        equal = table[candidate, case[:, None]] == best[case][:, None]
        equal[:, 1:] &= candidate[:, 1:] != candidate[:, :-1]  # those behind the last candidate
        parts[case, group] = np.packbits(equal, axis=1, bitorder="little").view(parts.dtype)[:, 0]


def members_of(pools: Words) -> tuple[Indices, Indices]:
    """The members of (n, words) pools, pool by pool in rising order: whose they are, and which candidates."""
    owner, word = np.nonzero(pools)
    octets = pools[owner, word].astype("<u8", copy=False)[:, None].view(np.uint8)
    place, bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    return owner[place], 64 * word[place] + bit


def with_members(owner: Indices, candidate: Indices, shape: tuple[int, int]) -> Words:
    """The pools of this shape, (n, words), that have these members, which are sorted as `members_of` gives them."""
    pools = np.zeros(shape, dtype=np.uint64)
    place = owner * shape[1] + (candidate >> 6)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    bits = np.uint64(1) << (candidate & 63).astype(np.uint64)
    pools.flat[place[starts]] = np.bitwise_or.reduceat(bits, starts)
    return pools
