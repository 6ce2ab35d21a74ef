"""The exact chance of every candidate when the pool is filtered case by case in a random order.

La Cava, Helmuth, Spector & Moore (2019) define these probabilities; computing them is exponential in
general, but for a population of a network's size it is quick. The argument needs one property of a filter:
a case that was used never changes the pool again. Then every case that changes a pool is still to come,
and the next one to do so is any of them alike, whatever came before. So probability flows from larger
pools to smaller ones, along steps that can be listed once. Who has the property:

- lexicase, for graded errors too: a case leaves only equals, and equals are never split again;
- lexicase under the paper's all-fail rule: a used case was solved by somebody, so by all who are left;
- epsilon-lexicase with an epsilon fixed per case: as the pool shrinks, its best error on a used case can
  only rise, so whoever was within epsilon of it stays so;
- not dynamic epsilon-lexicase: the deviation within a smaller pool is another one, and may split it;
- not batch lexicase: a case comes with the others of its batch, and those with it are used up.

The work is bounded: `TooManyPools` says that a table needs more, before the time is spent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from gradlex.selection._cases import ResolvedCases
from gradlex.selection._lexicase import OnAllFail
from gradlex.selection._protocol import ErrorTable, Indices

Probabilities: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = Indices | Probabilities

_MOST_WORK = 1 << 26
"""How many (candidate, case) pairs are looked at for the pools, and again for a depth; about a second."""
_MOST_FOR_ALL_SUBSETS = 12
"""Up to so many candidates every subset is a pool: 3^12 steps are listed faster than the reachable ones are found."""
_NOTHING = 1e-18
"""A chance too small to change any sum."""


class TooManyPools(Exception):
    """More pools can be reached than are followed: the chances must be estimated."""


class Behaviours(NamedTuple):
    """Candidates that no case tells apart: they stay together in every pool, so one row stands for all of them."""

    first: Indices
    """(behaviours,): a candidate of each."""
    owner: Indices
    """(candidates,): the behaviour of each."""
    sizes: Indices
    """(behaviours,): how many candidates have it."""

    @classmethod
    def of(cls, table: ErrorTable) -> Behaviours:
        """The different rows of a (candidates, cases) table, in the order of their first candidates."""
        seen: dict[bytes, int] = {}
        owner = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in table], dtype=np.intp)
        first = np.unique(owner, return_index=True)[1]
        return cls(first=first, owner=owner, sizes=np.bincount(owner))

    def shared(self, chances: Probabilities) -> Probabilities:
        """The chance of each candidate from those of the behaviours."""
        return np.asarray((chances / self.sizes)[self.owner])


class _Steps(NamedTuple):
    """The pools, and the cases that lead from one to a smaller one or end the selection there."""

    members: Mask
    """(pools, candidates); pool 0 is the whole population."""
    source: Indices
    target: Indices
    cases: Probabilities
    """How many cases lead from each source to its target."""
    ending: Probabilities
    """How many cases end the selection in each pool, because all of it fail them."""


def lexicase_probabilities(
    table: ErrorTable,
    *,
    on_all_fail: OnAllFail = "survive",
    depth: int | None = None,
    order: ResolvedCases | None = None,
) -> Probabilities:
    """Lexicase on a checked (candidates, cases) table, after `depth` cases of the order at most.

    `order` says which cases come sooner, and cannot be combined with `depth`.
    """
    ends = on_all_fail == "random"
    ranks = (table != 0).astype(np.uint8) if ends else dense_ranks(table)
    behaviour = Behaviours.of(ranks)
    return behaviour.shared(_behaviour_chances(ranks[behaviour.first], ends, depth, order, behaviour.sizes))


def _behaviour_chances(
    ranks: npt.NDArray[np.integer],
    ends: bool,
    depth: int | None,
    order: ResolvedCases | None,
    sizes: Indices,
) -> Probabilities:
    """The chance of each row, which stands for `sizes` candidates together."""
    if len(ranks) <= _MOST_FOR_ALL_SUBSETS and ranks.max() <= 1 and order is None:
        return _flow(_steps_between_subsets(ranks == 0, ends), ranks.shape[1], depth, sizes)
    kinds, counts, levels = kinds_of_cases(ranks, order)

    def best(pool: Indices) -> Mask:
        errors = kinds[pool]
        return np.asarray(errors == (0 if ends else errors.min(axis=0)))

    return pool_chances(best, counts, sizes, depth, levels)


def pool_chances(
    survivors: Callable[[Indices], Mask],
    counts: Counts,
    sizes: Indices,
    depth: int | None = None,
    levels: Indices | None = None,
) -> Probabilities:
    """The chances under any filter with the property, of behaviours that `sizes` candidates share each.

    `survivors(pool)` says whom of the pool each kind of case leaves, (pool, kinds), nobody where it ends the
    selection; `counts` how many cases of each kind there are, or their weights together; of the kinds that change a
    pool those of the lowest of `levels` come first.
    """
    return _flow(_steps_found(survivors, counts, len(sizes), levels), int(counts.sum()), depth, sizes)


def _steps_between_subsets(solved: Mask, ends: bool) -> _Steps:
    """The steps between all subsets of a few candidates, from (candidates, cases) that are solved or not.

    One axis a candidate, with three places: not in the pool; in it, and fails; in it, and solves. The number of cases
    for every pool and every part of it that a case leaves comes from the number for every set of solvers, by taking a
    sum along each axis. A pool's number is the set's complement, so that the whole population is pool 0.
    """
    population = len(solved)
    solvers = (solved.astype(np.intp) << np.arange(population)[:, None]).sum(axis=0)
    cases = np.bincount(solvers, minlength=1 << population)
    pool = left = np.zeros(1, dtype=np.intp)
    for bit in reversed(range(population)):
        fail, solve = np.moveaxis(cases.reshape(len(pool), 2, -1), 1, 0)
        cases = np.stack([fail + solve, fail, solve], axis=1).reshape(3 * len(pool), -1)
        pool = (pool[:, None] + np.array([0, 1, 1]) * (1 << bit)).ravel()
        left = (left[:, None] + np.array([0, 0, 1]) * (1 << bit)).ravel()
    everyone = (1 << population) - 1
    happens = (cases.ravel() > 0) & (pool != left)
    number, source, target = (
        cases.ravel()[happens].astype(np.float64),
        everyone ^ pool[happens],
        left[happens],
    )
    failed = target == 0
    ending = np.bincount(source[failed], number[failed], minlength=1 << population).astype(np.float64)
    members = (np.arange(everyone, -1, -1)[:, None] >> np.arange(population)) & 1 == 1
    return _Steps(
        members=members,
        source=source[~failed],
        target=everyone ^ target[~failed],
        cases=number[~failed],
        ending=ending if ends else np.zeros_like(ending),
    )


def _steps_found(
    survivors: Callable[[Indices], Mask], counts: Counts, population: int, levels: Indices | None = None
) -> _Steps:
    """The steps between the pools that can be reached, found one pool after another."""
    everyone = np.arange(population)
    pools = [everyone]
    numbers = {everyone.tobytes(): 0}
    ending: list[float] = []
    source: list[int] = []
    target: list[int] = []
    cases: list[float] = []
    work = population * len(counts)
    for number, pool in enumerate(pools):  # which grows as smaller pools are found
        successors, weights = (
            _successors(survivors(pool), counts, levels) if len(pool) > 1 else _NO_SUCCESSORS
        )
        ending.append(0)
        for column, weight in zip(successors.T, weights.tolist(), strict=True):
            successor = pool[column]
            if not len(successor):
                ending[-1] += weight
                continue
            key = successor.tobytes()
            if key not in numbers:
                numbers[key] = len(pools)
                pools.append(successor)
                work += len(successor) * len(counts) if len(successor) > 1 else 1
                if work > _MOST_WORK:
                    raise TooManyPools
            source.append(number)
            target.append(numbers[key])
            cases.append(weight)
    members = np.zeros((len(pools), population), dtype=bool)
    for number, pool in enumerate(pools):
        members[number, pool] = True
    return _Steps(
        members=members,
        source=np.array(source, dtype=np.intp),
        target=np.array(target, dtype=np.intp),
        cases=np.array(cases, dtype=np.float64),
        ending=np.array(ending, dtype=np.float64),
    )


def _flow(steps: _Steps, cases: int, depth: int | None, sizes: Indices) -> Probabilities:
    """The chance of each behaviour: that of the pools in which selection ends, shared out among their candidates."""
    ended = _flow_to_the_end(steps) if depth is None or depth >= cases else _flow_within(steps, cases, depth)
    candidates = steps.members * sizes
    return np.asarray((ended / np.maximum(candidates.sum(axis=1), 1)) @ candidates)


def _flow_to_the_end(steps: _Steps) -> Probabilities:
    """The chance to end in each pool when every case may be looked at: it is left for certain if any case can."""
    pools = len(steps.members)
    changing = np.bincount(steps.source, steps.cases, minlength=pools) + steps.ending
    share = steps.cases / changing[steps.source]
    sizes = steps.members.sum(axis=1)[steps.source]
    order = np.argsort(-sizes, kind="stable")  # the largest first: nothing can flow into them any more
    arriving = np.zeros(pools)
    arriving[0] = 1
    for some in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
        flow = arriving[steps.source[some]] * share[some]
        arriving += np.bincount(steps.target[some], flow, minlength=pools)
    stays = np.divide(steps.ending, changing, out=np.ones(pools), where=changing > 0)
    return arriving * stays


def _flow_within(steps: _Steps, cases: int, depth: int) -> Probabilities:
    """The chance to end in each pool when `depth` of the cases are looked at, followed case by case.

    The chance that the next case changes the pool depends on how many are still to come.
    """
    pools = len(steps.members)
    changing = np.bincount(steps.source, steps.cases, minlength=pools) + steps.ending
    slowest = changing[changing > 0].min(initial=cases) / cases
    if min(depth, -np.log(_NOTHING) / slowest) * len(steps.source) > _MOST_WORK:
        raise TooManyPools
    here, ended = np.zeros(pools), np.zeros(pools)
    here[0] = 1
    for used in range(depth):
        each = here / (cases - used)
        ended += each * steps.ending
        here = each * np.maximum(cases - used - changing, 0)
        here += np.bincount(steps.target, each[steps.source] * steps.cases, minlength=pools)
        if here[changing > 0].sum() < _NOTHING:
            break
    return ended + here


def _successors(passing: Mask, counts: Counts, levels: Indices | None = None) -> tuple[Mask, Probabilities]:
    """The different pools that the next case can leave, (pool, successors), and by how many cases each."""
    changes = ~passing.all(axis=0)
    if levels is not None and changes.any():
        changes &= levels == levels[changes].min()
    passing, counts = passing[:, changes], counts[changes]
    _, first, kind = np.unique(_keys(passing), return_index=True, return_inverse=True)
    weights = np.bincount(kind.ravel(), weights=counts, minlength=len(first))
    return passing[:, first], np.asarray(weights, dtype=np.float64)


_NO_SUCCESSORS = np.zeros((1, 0), dtype=bool), np.zeros(0)


def _keys(mask: Mask) -> npt.NDArray[np.generic]:
    """A value for each column of bits, equal where the columns are, that sorts quickly."""
    rows = np.packbits(mask, axis=0).T
    width = rows.shape[1] if rows.shape[1] > 8 else 8
    padded = np.zeros((len(rows), width), dtype=np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64 if width == 8 else np.dtype((np.void, width))).ravel()


def distinct_columns(table: ErrorTable) -> tuple[ErrorTable, Indices]:
    """The different cases of a (candidates, cases) table and how often each occurs."""
    if table.dtype == np.uint8 and table.max() <= 1:
        _, first, counts = np.unique(_keys(table.astype(bool)), return_index=True, return_counts=True)
        return table[:, first], counts
    columns, counts = np.unique(table, axis=1, return_counts=True)
    return columns, counts


def kinds_of_cases(
    table: ErrorTable, order: ResolvedCases | None
) -> tuple[ErrorTable, Counts, Indices | None]:
    """The different cases, how many there are of each or their weights together, and their levels if they have any."""
    if order is None:
        return *distinct_columns(table), None
    levels = np.zeros(len(order), dtype=np.intp) if order.levels is None else order.levels
    weights = np.ones(len(order)) if order.weights is None else order.weights
    _, first, kind = np.unique(np.vstack([table, levels]), axis=1, return_index=True, return_inverse=True)
    return table[:, first], np.bincount(kind.ravel(), weights=weights), levels[first]


def dense_ranks(table: ErrorTable) -> npt.NDArray[np.integer]:
    """Each error's rank among those of its case, equals alike: all that lexicase sees of it."""
    order = np.argsort(table, axis=0, kind="stable")
    errors = np.take_along_axis(table, order, axis=0)
    steps = np.zeros(table.shape, dtype=np.uint8 if len(table) < 256 else np.int32)
    steps[1:] = errors[1:] != errors[:-1]
    np.cumsum(steps, axis=0, out=steps)
    ranks = np.empty_like(steps)
    np.put_along_axis(ranks, order, steps, axis=0)
    return ranks
