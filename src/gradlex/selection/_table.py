"""Selection on its own, from a given error table: no network, no torch, any number of parents.

`TableErrors` puts a table in the place of a generation's networks. `select_parents` draws many parents from one;
`selection_chances` says how likely each candidate is to be one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gradlex._checks import check
from gradlex.errors import InputError
from gradlex.selection._cases import (
    Cases,
    ResolvedCases,
    as_array,
    check_cases,
    only_zero_and_one,
    worst_for_nan,
)
from gradlex.selection._lexicase_parents import lexicase_parents
from gradlex.selection._pools import Probabilities, TooManyPools
from gradlex.selection._protocol import Choice, ErrorTable, Indices
from gradlex.selection._registry import SELECTIONS, SelectionInfo, bind, find
from gradlex.selection._tournament import tournament_probabilities

_DRAWS = 40_000
"""Parents drawn for an estimate: no standard error is above 0.5 / sqrt(40,000) = 0.0025."""
_SEED = 20_220_425
"""Of the estimate's draws: the same table has the same estimate on every process and after a resume."""


class TableErrors:
    """CaseErrors over a (candidates, cases) array; what is not finite counts as infinity, the worst.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, lexicase
        >>> errors = TableErrors([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
        >>> lexicase(np.array([0, 2, 1]), errors, np.random.default_rng(0)).index
        0
        >>> errors(np.array([2]), np.array([0, 1]))  # case 2 of the first two candidates: (pool, cases)
        array([[0],
               [1]])
    """

    def __init__(
        self,
        table: npt.ArrayLike,
        candidates: npt.ArrayLike | None = None,
        memory: Mapping[str, npt.NDArray[np.generic]] | None = None,
    ) -> None:
        self._table = worst_for_nan(as_array(table))
        everyone = np.arange(len(self._table)) if candidates is None else candidates
        self.candidates: Indices = np.asarray(everyone, dtype=np.intp)
        self.memory: Mapping[str, npt.NDArray[np.generic]] = memory or {}
        self.evaluated = 0
        """How many (candidate, case) pairs were evaluated."""

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """The (pool, cases) part of the table."""
        self.evaluated += len(cases) * len(pool)
        return self._table[np.ix_(pool, cases)]

    def matrix(self) -> ErrorTable:
        """The rows of all candidates."""
        return self(np.arange(self._table.shape[1]), self.candidates)


def select_parents(
    errors: npt.ArrayLike,
    k: int,
    method: str | Callable[..., Choice] = "lexicase",
    rng: np.random.Generator | int | None = None,
    *,
    cases: Cases | None = None,
    **options: Any,
) -> Indices:
    """Choose `k` parents from an (individuals, cases) table of errors: their indices, of shape (k,).

    Lower is better; NaN and infinity count as worst. Each parent is selected independently, by its own
    random order of cases; a down-sample is drawn once a call, as once a generation. `method` is a name, or a
    strategy of your own (a function or `module:function`), which is called `k` times. `on_all_fail` is
    "survive" here, the classic rule; the other options have the defaults of training. `rng` is a NumPy
    generator, a seed, or None for fresh randomness. The table is an array, a list of rows or a torch tensor; `cases`
    says what its columns are where they are more than cases alike: groups, weights, priorities, higher is better.

    Examples:
        >>> from gradlex.selection import select_parents
        >>> errors = [[0, 0, 1], [1, 1, 0], [1, 1, 1]]  # (individuals, cases)
        >>> sorted(set(select_parents(errors, k=100, rng=0).tolist()))  # the third is never better than the others
        [0, 1]
    """
    if not isinstance(k, Integral) or isinstance(k, bool) or int(k) < 1:
        raise InputError(f"k is a whole number of parents, 1 or more; got {k!r}.")
    info = find(method)
    info.check(options)
    if info.name == "sgd":
        raise InputError(
            "'sgd' trains one candidate and selects nobody. Use 'lexicase', or 'random' for a control."
        )
    ruled = "on_all_fail" in info.options and not info.own
    if ruled:
        options = {"on_all_fail": "survive", **options}
    # To look for NaN takes a pass over the table; lexicase meets it in the one that it takes anyway.
    meets_nan = info.parents is lexicase_parents and options["on_all_fail"] == "survive"
    table, order = _described(errors, cases, clean=not meets_nan)
    if ruled:
        _check_all_fail(table, options["on_all_fail"])
    stream, every = _generator(rng), {**info.options, **options}
    if order is not None:
        return _ordered_parents(info, table, int(k), stream, every, order)
    if info.parents is not None:
        return info.parents(table, int(k), stream, **every)
    if info.probabilities is not None:
        return stream.choice(len(table), size=int(k), p=info.probabilities(table, **every))
    select, given = bind(method, **options), TableErrors(table)
    orders = (stream.permutation(table.shape[1]) for _ in range(int(k)))
    return np.array([select(each, given, stream).index for each in orders], dtype=np.intp)


def _ordered_parents(
    info: SelectionInfo,
    table: ErrorTable,
    k: int,
    rng: np.random.Generator,
    options: Mapping[str, Any],
    order: ResolvedCases,
) -> Indices:
    """`k` parents where some cases come sooner than others: at once by lexicase, one after another by others."""
    if info.name == "tournament":
        chances = tournament_probabilities(_weighted(info, table, order), **options)
        return rng.choice(len(table), size=k, p=chances)
    _check_ordered(info)
    if info.name == "lexicase" and options["depth"] is None:
        return lexicase_parents(table, k, rng, on_all_fail=options["on_all_fail"], order=order)
    select, given = bind(info.strategy if info.own else info.name, **options), TableErrors(table)
    return np.array([select(order.order(rng), given, rng).index for _ in range(k)], dtype=np.intp)


def _check_ordered(info: SelectionInfo) -> None:
    if not info.ordered or info.draws is not None:
        able = [name for name, each in SELECTIONS.items() if each.ordered and each.draws is None]
        raise InputError(
            f"weights and priorities say in which order cases come, which selection {info.name!r} on a table does not "
            f"follow: use one of {', '.join(able)}, or tournament with weights alone."
        )


def _weighted(info: SelectionInfo, table: ErrorTable, order: ResolvedCases) -> ErrorTable:
    """The table with errors by which a mean is the weighted one."""
    if order.levels is not None or order.weights is None:
        raise InputError(
            f"priorities say in which order cases come, and selection {info.name!r} takes a mean: leave them out."
        )
    return np.asarray(table * order.weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chances:
    """How likely each candidate is to be chosen, and how well that is known.

    Examples:
        >>> from gradlex.selection import selection_chances
        >>> chances = selection_chances([[0, 0, 1], [1, 1, 0]], on_all_fail="survive")
        >>> chances.values.round(3).tolist()
        [0.667, 0.333]
        >>> chances.exact, chances.standard_error.tolist()  # an estimate would have errors up to 0.0025
        (True, [0.0, 0.0])
    """

    values: Probabilities
    """(candidates,), summing to 1."""
    standard_error: Probabilities
    """(candidates,): 0 where `exact`, otherwise that of the draws behind the estimate."""
    exact: bool
    """Whether the values are exact to rounding, rather than estimated."""


def selection_chances(
    errors: npt.ArrayLike,
    *,
    method: str | Callable[..., Choice] = "lexicase",
    exact: Literal["auto", True] = "auto",
    cases: Cases | None = None,
    **options: Any,
) -> Chances:
    """The chance of each candidate of a (candidates, cases) table to be chosen by a method.

    Options have the defaults of training: `on_all_fail` is "random" on a table of 0/1 errors; with graded
    errors the classic rule holds. The exact chances of lexicase and its relatives take time that grows with the pools
    that can be reached: few for up to 12 candidates or with continuous errors, 2^candidates in the worst case. Beyond a
    fixed amount of work they are estimated from 40,000 parents drawn with a fixed seed, each chance within a standard
    error of at most 0.0025; `Chances.exact` says which. `exact=True` refuses to estimate. `cases` says what the columns
    are, as for `select_parents`.

    Examples:
        >>> from gradlex.selection import selection_chances
        >>> chances = selection_chances([[0, 0, 1], [1, 1, 0]], method="tournament", tournament_size=2)
        >>> chances.values.tolist(), chances.exact  # the first has the lower mean error
        ([1.0, 0.0], True)
    """
    check("exact", Literal["auto", True], exact)
    table, order = _described(errors, cases)
    grouped = cases is not None and cases.groups is not None
    return chances_of(table, order, method=method, exact=exact, graded=grouped, options=options)


def chances_of(
    table: ErrorTable,
    order: ResolvedCases | None,
    *,
    method: str | Callable[..., Choice],
    exact: Literal["auto", True] = "auto",
    graded: bool = False,
    options: Mapping[str, Any],
) -> Chances:
    """The chances on a checked (candidates, cases) table, whose cases come in this order if one is given."""
    info = find(method)
    info.check(options)
    bound = {**info.options, **options}
    if "on_all_fail" in options:
        _check_all_fail(table, options["on_all_fail"])
    elif "on_all_fail" in bound:
        bound["on_all_fail"] = "random" if not graded and only_zero_and_one(table) else "survive"
    if order is not None and info.name == "tournament":
        table, order = _weighted(info, table, order), None
    if order is not None:
        _check_ordered(info)
        if bound.get("depth") is not None:
            raise InputError(
                "the chances after a depth are known for cases that are alike, and these have weights or priorities: "
                "leave depth out, or draw many with `select_parents`."
            )
    ordered = {} if order is None else {"order": order}
    try:
        values = info.probabilities(table, **bound, **ordered) if info.probabilities else None
    except TooManyPools as error:
        if exact is True:
            raise InputError(
                f"the exact chances of {info.name!r} on {table.shape[0]} candidates and {table.shape[1]} cases would "
                "take too long. Leave exact at 'auto' for an estimate, or give fewer candidates or cases."
            ) from error
        return _estimate(info, table, bound, order)
    if values is None:
        known = ", ".join(name for name, other in SELECTIONS.items() if other.exact)
        how = " with the pool's own deviation (epsilon_mode='dynamic')" if info.exact else ""
        raise InputError(
            f"{info.name!r}{how} has no exact or closed form of its probabilities. Methods that have: {known}. "
            "Draw many with `select_parents` instead."
        )
    return Chances(values=values, standard_error=np.zeros(len(table)), exact=True)


def selection_probabilities(
    errors: npt.ArrayLike,
    *,
    method: str | Callable[..., Choice] = "lexicase",
    exact: Literal["auto", True] = "auto",
    cases: Cases | None = None,
    **options: Any,
) -> Probabilities:
    """The values of `selection_chances`, (candidates,): exact, or estimated where that would take too long.

    `exact=True` refuses to estimate; `selection_chances` says whether it was done, and the standard error.

    Examples:
        >>> from gradlex.selection import selection_probabilities
        >>> errors = [[0, 0, 1], [1, 1, 0], [1, 1, 1]]  # the first solves two cases, the second one
        >>> selection_probabilities(errors, on_all_fail="survive").round(3).tolist()
        [0.667, 0.333, 0.0]
    """
    return selection_chances(errors, method=method, exact=exact, cases=cases, **options).values


def _estimate(
    info: SelectionInfo, table: ErrorTable, options: Mapping[str, Any], order: ResolvedCases | None
) -> Chances:
    """The share of independent draws in which each candidate was chosen, and its standard error.

    The error of a share of 0 or 1 is not 0: it is taken for a candidate with one draw more, or less.
    """
    rng = np.random.default_rng(_SEED)
    if order is not None:
        parents = _ordered_parents(info, table, _DRAWS, rng, options, order)
    else:
        draw = info.draws or info.parents
        assert draw is not None  # a method with bounded work has one, and a test runs them all
        parents = draw(table, _DRAWS, rng, **options)
    counts = np.bincount(parents, minlength=len(table))
    shares = np.clip(counts, 1, _DRAWS - 1) / _DRAWS
    return Chances(
        values=counts / _DRAWS, standard_error=np.sqrt(shares * (1 - shares) / _DRAWS), exact=False
    )


def _generator(rng: Any) -> np.random.Generator:
    whole = isinstance(rng, Integral) and not isinstance(rng, bool) and int(rng) >= 0
    if rng is None or whole or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    raise InputError(
        f"rng is a numpy.random.Generator, a seed (a whole number, 0 or more) or None; got {rng!r}."
    )


def _described(
    errors: npt.ArrayLike, cases: Cases | None, *, clean: bool = True
) -> tuple[ErrorTable, ResolvedCases | None]:
    """The checked (candidates, cases) table, and the order that cases come in where it is not the uniform one.

    Without cases it keeps its NaN unless `clean`.
    """
    if cases is None:
        array = as_array(errors)
        return worst_for_nan(array) if clean else array, None
    check_cases(cases)
    table, own = cases.table(errors)
    return table, own if own.ordered else None


def _check_all_fail(table: ErrorTable, on_all_fail: str) -> None:
    """Refuse the paper's all-fail rule on graded errors, where it has no meaning."""
    if on_all_fail == "random" and not only_zero_and_one(table):
        raise InputError(
            "on_all_fail='random' needs a table of 0 (solved) and 1 (failed) errors; this one has others. "
            "Use 'survive', the classic rule, for graded errors."
        )
