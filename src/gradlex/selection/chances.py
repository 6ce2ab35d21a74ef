"""The exact chance of every candidate when the pool is filtered case by case in a random order.

La Cava, Helmuth, Spector & Moore (2019) define these probabilities; computing them is exponential in general, but for a
population of a network's size it is quick. The argument needs one property of a filter: a case that was used never
changes the pool again. Then every case that changes a pool is still to come, and the next one to do so is any of them
alike, whatever came before. So probability flows from larger pools to smaller ones. Lexicase has the property: equals
are never split again, also under the paper's all-fail rule. So has epsilon-lexicase with an epsilon fixed for each
case: the best of a smaller pool can only be worse. Dynamic epsilon-lexicase and batch lexicase don't have it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gradlex.selection.protocol import ErrorTable, Floats, Indices, Mask

_MOST_WORK = 1 << 26
"""How many (candidate, case) pairs are looked at for the pools, and again for a depth; about a second."""
_NOTHING = 1e-18
"""A chance too small to change any sum."""
_FEW = 10
"""Up to so many candidates the last sum has a place for every subset."""


class TooManyPools(Exception):
    """More pools can be reached than are followed: the chances must be estimated."""


def lexicase_probabilities(
    table: ErrorTable, *, ends: bool = False, depth: int | None = None, within: Floats | None = None
) -> Floats:
    """The chances on a checked (candidates, cases) table.

    If `ends`, a case that the whole pool fails ends the selection; otherwise the whole pool survives it. An error at
    most `within` above the best on a case counts as the best.
    """
    if ends:
        table = (table != 0).astype(np.uint8)
    # Candidates that are equal everywhere stay together in every pool, so that one row stands for all of them.
    seen: dict[bytes, int] = {}
    owner = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in table], dtype=np.intp)
    number_of_cases, sizes = table.shape[1], np.bincount(owner)
    table = table[np.unique(owner, return_index=True)[1]]
    # Only the first of equal cases matters, and how many there are.
    first, counts = _distinct(table if within is None else np.vstack([table, within]))
    table, near = table[:, first], 0 if within is None else within[first]

    pools = [np.arange(len(table))]
    numbers = {pools[0].tobytes(): 0}
    ending: list[float] = []
    steps: list[tuple[int, int, float]] = []
    work = table.size
    for number, pool in enumerate(pools):  # which grows as smaller pools are found
        ending.append(0.0)
        errors = table[pool]
        passing = np.asarray(errors == 0 if ends else errors <= errors.min(axis=0) + near)
        changes = ~passing.all(axis=0) & (len(pool) > 1)
        passing = passing[:, changes]
        for column, count in zip(*(each.tolist() for each in _distinct(passing, counts[changes])), strict=True):
            successor = pool[passing[:, column]]
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
    members = np.array([np.isin(pools[0], pool) for pool in pools])
    ended = _flow(members, np.array(steps).reshape(-1, 3), np.array(ending), number_of_cases, depth)
    if len(table) <= _FEW:  # so that last bits don't depend on which pools can be reached
        bits = np.arange(len(table))
        ended = np.bincount(~members @ (1 << bits), ended, minlength=1 << len(table)).astype(np.float64)
        members = np.arange(len(ended))[:, None] >> bits & 1 == 0
    candidates = members * sizes
    chances = (ended / np.maximum(candidates.sum(axis=1), 1)) @ candidates
    return np.asarray((chances / sizes)[owner])


def _flow(members: Mask, steps: Floats, ending: Floats, number_of_cases: int, depth: int | None) -> Floats:
    """The chance to end in each of the (pools, candidates); pool 0 is the whole population.

    Each of the `steps` has a source, a target, and how many cases lead from one to the other; `ending` is how many
    cases end the selection in each pool.
    """
    source, target, cases = steps[:, 0].astype(np.intp), steps[:, 1].astype(np.intp), steps[:, 2]
    pools = len(members)
    changing = np.bincount(source, cases, minlength=pools) + ending
    here, ended = np.zeros(pools), np.zeros(pools)
    here[0] = 1
    if depth is None or depth >= number_of_cases:  # a pool is left for certain if any case can change it
        share, sizes = cases / changing[source], members.sum(axis=1)[source]
        # The largest first: nothing can flow into them any more.
        order = np.lexsort((np.lexsort(members.T).argsort()[source], -sizes))
        for some in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
            here += np.bincount(target[some], here[source[some]] * share[some], minlength=pools)
        return here * np.divide(ending, changing, out=np.ones(pools), where=changing > 0)
    # Case by case: the chance that the next one changes the pool depends on how many are still to come.
    slowest = changing[changing > 0].min(initial=number_of_cases) / number_of_cases
    if min(depth, -np.log(_NOTHING) / slowest) * len(source) > _MOST_WORK:
        raise TooManyPools
    for used in range(depth):
        each = here / (number_of_cases - used)
        ended += each * ending
        here = each * np.maximum(number_of_cases - used - changing, 0)
        here += np.bincount(target, each[source] * cases, minlength=pools)
        if here[changing > 0].sum() < _NOTHING:
            break
    return ended + here


def _distinct(table: npt.NDArray[Any], counts: Floats | None = None) -> tuple[Indices, Floats]:
    """The number of one column of each kind, and how many there are of it, or how much they count together."""
    if not table.shape[1]:
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    bits = table.dtype in (np.bool_, np.uint8) and table.max() <= 1
    rows = np.ascontiguousarray(np.packbits(table, axis=0).T if bits else table.T)
    keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    return first, np.bincount(kind, counts).astype(np.float64)
