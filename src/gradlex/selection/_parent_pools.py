"""The pools of many parents at once, each filtered by a case of its own.

A pool starts as everyone, becomes a row of bits, and at last a list of its members, whose errors are looked up one by
one: bits are quick as long as pools are large, lists once few are left. All three are the same to those who filter.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from gradlex.selection._best_bits import Best, Words, members_of, with_members
from gradlex.selection._pools import Mask, dense_ranks, distinct_columns
from gradlex.selection._protocol import ErrorTable, Indices

_SHORT = 6
"""Pools become lists at so many members on average; or at more where bits take many words."""
_LOOKS = 1 << 20
"""How many errors are looked up at a time, about."""


class Filters:
    """What each case lets pass: the best on it, or only those who solve it where all who fail `ends` the selection."""

    def __init__(self, table: ErrorTable, *, ends: bool) -> None:
        self.ends = ends
        self.best = Best(table, zero=ends)
        self.table = self.best.table
        self.population, self.cases = table.shape
        self.telling = self.best.telling()
        """The cases that can matter."""
        self.looked_up = 0
        """How many errors of pools without a case's best were looked up in the table."""

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
    def behaviours(self) -> Indices:
        """(candidates,): a number for each, the same for those whom no case tells apart."""
        numbers: dict[bytes, int] = {}
        rows = (row != 0 if self.ends else row for row in self.table)
        digests = (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows)
        return np.array([numbers.setdefault(digest, len(numbers)) for digest in digests], dtype=np.intp)

    @cached_property
    def kinds(self) -> tuple[Filters, Indices]:
        """The filters of the different cases, and how many cases there are of each."""
        table = self.table[:, self.telling]
        ranks = (table != 0).astype(np.uint8) if self.ends else dense_ranks(table)
        columns, counts = distinct_columns(ranks)
        return Filters(columns, ends=self.ends), counts


class Pools(Protocol):
    """Pools, numbered from 0."""

    def filter(self, filters: Filters, cases: Indices) -> tuple[Pools, Mask]:
        """Each pool after its case, and whether it is done: one candidate, or all failed where that ends it."""
        ...

    def alike(self, behaviours: Indices) -> Mask:
        """Whether no case tells the members of a pool apart."""
        ...

    def keep(self, these: Mask) -> Pools:
        """Some of the pools, numbered anew."""
        ...

    def members(self, these: Mask) -> tuple[Indices, Indices]:
        """The members of some of the pools, pool by pool in rising order: the pools' numbers, and the candidates."""
        ...


@dataclass(frozen=True)
class Everyone:
    """Pools that no case has filtered yet."""

    count: int
    population: int

    def filter(self, filters: Filters, cases: Indices) -> tuple[Pools, Mask]:
        """The best on each case."""
        used = np.zeros(filters.cases, dtype=bool)
        used[cases] = True
        lists = filters.best.lists(np.flatnonzero(used))
        pools = None if lists is None else _lists_of_cases(*lists, (np.cumsum(used) - 1)[cases])
        if pools is not None:
            return pools, pools.sizes == 1
        left = filters.best.bits.take(cases, axis=0)
        union = _union(left)
        failed = union == 0  # only where that ends it
        if failed.any():
            left[failed] = filters.best.everyone
            return AsBits(left), failed | _alone(left, _union(left))
        return _shortest(left), _alone(left, union)

    def alike(self, behaviours: Indices) -> Mask:
        """The same for all of them."""
        return np.full(self.count, (behaviours == behaviours[0]).all())

    def keep(self, these: Mask) -> Pools:
        """As many pools of everyone."""
        return Everyone(int(np.count_nonzero(these)), self.population)

    def members(self, these: Mask) -> tuple[Indices, Indices]:
        """Everyone, for each of them."""
        numbers = np.flatnonzero(these)
        return np.repeat(numbers, self.population), np.tile(np.arange(self.population), len(numbers))


@dataclass(frozen=True)
class AsBits:
    """Pools as bits."""

    words: Words
    """(pools, words)."""

    def filter(self, filters: Filters, cases: Indices) -> tuple[Pools, Mask]:
        """The bits that a pool and the best on its case share; where there are none, the errors decide."""
        left = filters.best.bits.take(cases, axis=0)
        left &= self.words
        union = _union(left)
        missed = np.flatnonzero(union == 0)
        if len(missed):
            alike = filters.all_fail_alike
            left[missed] = self.words[missed] if alike else self._looked_up(filters, missed, cases[missed])
            union[missed] = _union(left[missed])
        ended = _alone(left, union)
        if filters.ends:
            ended[missed] = True
        return _shortest(left), ended

    def _looked_up(self, filters: Filters, missed: Indices, cases: Indices) -> Words:
        """The best of some pools on their cases, (pools, words), found from the errors themselves."""
        best = np.empty((len(missed), self.words.shape[1]), dtype=np.uint64)
        step = max(1, _LOOKS // filters.population)
        for start in range(0, len(missed), step):
            lists = _listed(self.words[missed[start : start + step]])
            filters.looked_up += len(lists.owner)
            some = best[start : start + step]
            left = lists.best(filters, cases[start : start + step])[0]
            some[:] = with_members(left.owner, left.candidate, some.shape)
        return best

    def alike(self, behaviours: Indices) -> Mask:
        """By their lists, some pools at a time."""
        step = max(1, _LOOKS // len(behaviours))
        parts = (self.words[start : start + step] for start in range(0, len(self.words), step))
        return np.concatenate([_listed(part).alike(behaviours) for part in parts])

    def keep(self, these: Mask) -> Pools:
        """The rows of these."""
        return AsBits(self.words[these])

    def members(self, these: Mask) -> tuple[Indices, Indices]:
        """The set bits of these."""
        numbers = np.flatnonzero(these)
        owner, candidate = members_of(self.words[numbers])
        return numbers[owner], candidate


@dataclass(frozen=True)
class AsLists:
    """Pools as lists of their members, one after another."""

    owner: Indices
    """(members,): the pool of each, in rising order."""
    candidate: Indices
    """(members,), in rising order within a pool."""
    sizes: Indices
    """(pools,), of at least 1."""

    def filter(self, filters: Filters, cases: Indices) -> tuple[Pools, Mask]:
        """Those with the lowest error of their pool."""
        left, failed = self.best(filters, cases)
        return left, (left.sizes == 1) | failed if filters.ends else left.sizes == 1

    def best(self, filters: Filters, cases: Indices) -> tuple[AsLists, Mask]:
        """Those with the lowest error of their pool, and which pools have none that solves its case."""
        errors = filters.best.errors(self.candidate, cases[self.owner])
        if filters.ends:
            errors = errors != 0  # those who fail are alike
        lowest = np.minimum.reduceat(errors, np.cumsum(self.sizes) - self.sizes)
        kept = errors == lowest[self.owner]
        owner = self.owner[kept]
        sizes = np.bincount(owner, minlength=len(self.sizes))
        return AsLists(owner, self.candidate[kept], sizes), lowest > 0

    def alike(self, behaviours: Indices) -> Mask:
        """Whether all have the number of the first."""
        numbers, firsts = behaviours[self.candidate], np.cumsum(self.sizes) - self.sizes
        return np.logical_and.reduceat(numbers == numbers[firsts][self.owner], firsts)

    def keep(self, these: Mask) -> Pools:
        """The lists of these."""
        kept = these[self.owner]
        numbers = np.cumsum(these) - 1
        return AsLists(numbers[self.owner[kept]], self.candidate[kept], self.sizes[these])

    def members(self, these: Mask) -> tuple[Indices, Indices]:
        """The lists themselves."""
        kept = these[self.owner]
        return self.owner[kept], self.candidate[kept]


def _lists_of_cases(case: Indices, candidate: Indices, number: Indices) -> AsLists | None:
    """For each pool the list of the case with its number, from the lists of the cases; None if it is a long one."""
    lengths = np.bincount(case)
    sizes = lengths[number]
    if sizes.sum() > 4 * _SHORT * len(number):
        return None
    owner = np.repeat(np.arange(len(number)), sizes)
    # Each list is a run of the candidates: from its case's first one on.
    runs = (np.cumsum(lengths) - lengths)[number] - (np.cumsum(sizes) - sizes)
    return AsLists(owner, candidate[runs[owner] + np.arange(len(owner))], sizes)


def _listed(words: Words) -> AsLists:
    owner, candidate = members_of(words)
    return AsLists(owner, candidate, np.bincount(owner, minlength=len(words)))


def _shortest(words: Words) -> Pools:
    """Pools of (pools, words) bits in the form that is quicker to filter."""
    short = max(_SHORT, words.shape[1] // 8)
    if np.count_nonzero(words) > short * len(words):
        return AsBits(words)
    some = words[:: max(1, len(words) // 16)]
    if np.count_nonzero(np.unpackbits(some.view(np.uint8))) > short * len(some):
        return AsBits(words)
    lists = _listed(words)
    return lists if len(lists.owner) <= 2 * short * len(words) else AsBits(words)


def _union(pools: Words) -> Words:
    """The bits of all words of each pool, or those of its first word if they are two or more: it matters no further."""
    union = pools[:, 0].copy()
    if pools.shape[1] > 1:
        few = np.flatnonzero((union & (union - np.uint64(1))) == 0)
        union[few] = np.bitwise_or.reduce(pools.take(few, axis=0), axis=1)
    return np.asarray(union)


def _alone(pools: Words, union: Words) -> Mask:
    """Whether each pool has one member, given the union of its words."""
    alone = (union & (union - np.uint64(1))) == 0  # no word has two bits
    if pools.shape[1] > 1 and alone.any():
        few = np.flatnonzero(alone)
        alone[few] = np.count_nonzero(pools.take(few, axis=0), axis=1) == 1
    return np.asarray(alone)
