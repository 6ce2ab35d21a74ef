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

from gradlex.errors import InputError
from gradlex.selection.cases import Cases, as_array
from gradlex.selection.chances import TooManyPools
from gradlex.selection.lexicase import Lexicase
from gradlex.selection.order import CaseOrder
from gradlex.selection.protocol import (
    Choice,
    ErrorTable,
    Floats,
    Indices,
    Selection,
    only_zero_and_one,
    worst_for_nan,
)
from gradlex.selection.registry import SELECTIONS, make_selection
from gradlex.selection.strategy import Strategy

_DRAWS = 40_000
"""Parents drawn for an estimate: no standard error is above 0.5 / sqrt(40,000) = 0.0025."""
_SEED = 20_220_425
"""Of the estimate's draws: the same table has the same estimate on every process and after a resume."""


class TableErrors:
    """CaseErrors over a (candidates, cases) array; what is not finite counts as infinity, the worst.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Lexicase, TableErrors
        >>> errors = TableErrors([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
        >>> Lexicase()(np.array([0, 2, 1]), errors, np.random.default_rng(0)).index
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
    method: str | Selection | Callable[..., Choice] = "lexicase",
    rng: np.random.Generator | int | None = None,
    *,
    cases: Cases | None = None,
    **options: Any,
) -> Indices:
    """Choose `k` parents from an (individuals, cases) table of errors: their indices, of shape (k,).

    Lower is better; NaN and infinity count as worst. Each parent is selected independently, by its own random order of
    cases; a down-sample is drawn once a call, as once a generation.

    Args:
        errors: An array, a list of rows or a torch tensor.
        k: How many parents.
        method: What `make_selection` takes: a name, a strategy, a function (which is called `k` times).
        rng: A NumPy generator, a seed, or None for fresh randomness.
        cases: Groups, weights, priorities, higher is better: where columns are more than cases alike.
        options: Options of a method given by name. `on_all_fail` is "random" on a table of 0/1 errors, as in training,
            and "survive", the classic rule, on a table with graded errors.

    Examples:
        >>> from gradlex.selection import select_parents
        >>> errors = [[0, 0, 1], [1, 1, 0], [1, 1, 1]]  # (individuals, cases)
        >>> sorted(set(select_parents(errors, k=100, rng=0, on_all_fail="survive").tolist()))  # the third is never best
        [0, 1]
    """
    if not isinstance(k, Integral) or isinstance(k, bool) or int(k) < 1:
        raise InputError(f"k is a whole number of parents, 1 or more; got {k!r}.")
    strategy, table, order = _settled(errors, method, cases, options)
    return _drawn(strategy, table, int(k), _generator(rng), order)


@dataclass(frozen=True, kw_only=True, eq=False)
class Chances:
    """How likely each candidate is to be chosen, and how well that is known.

    Examples:
        >>> from gradlex.selection import selection_chances
        >>> chances = selection_chances([[0, 0, 1], [1, 1, 0]])
        >>> chances.values.round(3).tolist()
        [0.667, 0.333]
        >>> chances.exact, chances.standard_error.tolist()  # an estimate would have errors up to 0.0025
        (True, [0.0, 0.0])
    """

    values: Floats
    """(candidates,), summing to 1."""
    standard_error: Floats
    """(candidates,): 0 where `exact`, otherwise of the draws behind the estimate."""
    exact: bool
    """Whether the values are exact to rounding, rather than estimated."""


def selection_chances(
    errors: npt.ArrayLike,
    method: str | Selection = "lexicase",
    *,
    exact: Literal["auto", True] = "auto",
    cases: Cases | None = None,
    **options: Any,
) -> Chances:
    """The chance of each candidate of a (candidates, cases) table to be chosen, with the defaults of `select_parents`.

    The exact chances of lexicase and its relatives take time that grows with the pools that can be reached: few for up
    to 12 candidates or with continuous errors, 2^candidates in the worst case. Beyond a fixed amount of work they are
    estimated from 40,000 parents drawn with a fixed seed, each chance within a standard error of at most 0.0025;
    `Chances.exact` says which. With `exact=True` an error is raised in place of an estimate.

    Examples:
        >>> from gradlex.selection import selection_chances
        >>> chances = selection_chances([[0, 0, 1], [1, 1, 0]], "tournament", size=2)
        >>> chances.values.tolist(), chances.exact  # the first has the lower mean error
        ([1.0, 0.0], True)
    """
    if exact not in ("auto", True):
        raise InputError(f"exact must be 'auto' or True, got {exact!r}.")
    strategy, table, order = _settled(errors, method, cases, options)
    return chances_of(strategy, table, order, exact=exact)


def selection_probabilities(
    errors: npt.ArrayLike,
    method: str | Selection = "lexicase",
    *,
    exact: Literal["auto", True] = "auto",
    cases: Cases | None = None,
    **options: Any,
) -> Floats:
    """The values of `selection_chances`, (candidates,): exact, or estimated where that would take too long.

    Examples:
        >>> from gradlex.selection import selection_probabilities
        >>> errors = [[0, 0, 1], [1, 1, 0], [1, 1, 1]]  # the first solves two cases, the second one
        >>> selection_probabilities(errors, on_all_fail="survive").round(3).tolist()
        [0.667, 0.333, 0.0]
    """
    return selection_chances(errors, method, exact=exact, cases=cases, **options).values


def chances_of(
    strategy: Selection, table: ErrorTable, order: CaseOrder | None, *, exact: Literal["auto", True] = "auto"
) -> Chances:
    """The chances on a (candidates, cases) table, whose cases come in this order if one is given."""
    strategy = _for_table(strategy, table)
    if order is not None and getattr(strategy, "depth", None) is not None:
        raise InputError(
            "the chances after a depth are known for cases that are alike, and these have weights or priorities: leave "
            "depth out, or draw many with `select_parents`."
        )
    values = None
    try:
        if isinstance(strategy, Strategy):
            values = strategy.following(order).probabilities(worst_for_nan(table), order)
    except TooManyPools as error:
        if exact is True:
            raise InputError(
                f"the exact chances of '{strategy}' on {table.shape[0]} candidates and {table.shape[1]} cases would take "
                "too long. Leave exact at 'auto' for an estimate, or give fewer candidates or cases."
            ) from error
        return _estimate(strategy, table, order)
    if values is None:
        known = ", ".join(name for name, info in SELECTIONS.items() if info.exact)
        raise InputError(
            f"'{strategy}' has no exact or closed form of its probabilities here. Methods that have: {known} (without "
            "the pool's own epsilon). Draw many with `select_parents` instead."
        )
    return Chances(values=values, standard_error=np.zeros(len(table)), exact=True)


def _estimate(strategy: Strategy, table: ErrorTable, order: CaseOrder | None) -> Chances:
    """The share of independent draws in which each candidate was chosen, and its standard error.

    The error of a share of 0 or 1 is not 0: it is taken for a candidate with one draw more, or less.
    """
    rng = np.random.default_rng(_SEED)
    parents = strategy.draws(table, _DRAWS, rng, order)
    if parents is None:
        parents = _drawn(strategy, table, _DRAWS, rng, order)
    counts = np.bincount(parents, minlength=len(table))
    shares = np.clip(counts, 1, _DRAWS - 1) / _DRAWS
    return Chances(
        values=counts / _DRAWS, standard_error=np.sqrt(shares * (1 - shares) / _DRAWS), exact=False
    )


def _settled(
    errors: npt.ArrayLike, method: Any, cases: Cases | None, options: Mapping[str, Any]
) -> tuple[Selection, ErrorTable, CaseOrder | None]:
    """The strategy, the (candidates, cases) table, and the order of its cases if that isn't uniform."""
    strategy = make_selection(method, **options)
    if str(strategy) == "sgd":
        raise InputError(
            "'sgd' trains one candidate and selects none. Use 'lexicase', or 'random' for a control."
        )
    if cases is None:
        table, order, grouped = as_array(errors), None, False
    elif isinstance(cases, Cases):
        (table, order), grouped = cases.table(errors), cases.groups is not None
    else:
        raise InputError(
            f"cases must be a gradlex.selection.Cases, got {cases!r:.80}: give Cases(groups=...) for example."
        )
    return _for_table(strategy, table, grouped=grouped), table, order


def _for_table(strategy: Selection, table: ErrorTable, *, grouped: bool = False) -> Selection:
    """The strategy with its all-fail rule settled, which takes a look at the table if it is open."""
    if not isinstance(strategy, Lexicase) or strategy.on_all_fail == "survive":
        return strategy
    return strategy.settled(graded=grouped or not only_zero_and_one(table))


def _drawn(
    strategy: Selection, table: ErrorTable, k: int, rng: np.random.Generator, order: CaseOrder | None
) -> Indices:
    """`k` parents: at once, by the probabilities, or one after another."""
    if not isinstance(
        strategy, Lexicase
    ):  # which handles NaN in the pass over the table that it takes anyway
        table = worst_for_nan(table)
    if isinstance(strategy, Strategy):
        parents = strategy.following(order).parents(table, k, rng, order)
        if parents is not None:
            return parents
        chances = None if strategy.follows_order and not order else strategy.probabilities(table, order)
        if chances is not None:
            return rng.choice(len(table), size=k, p=chances)
    given, cases = TableErrors(table), table.shape[1]
    orders = (
        rng.permutation(cases) if order is None else np.argsort(order.keys(1, cases, rng)[0])
        for _ in range(k)
    )
    return np.array([strategy(each, given, rng).index for each in orders], dtype=np.intp)


def _generator(rng: Any) -> np.random.Generator:
    whole = isinstance(rng, Integral) and not isinstance(rng, bool) and int(rng) >= 0
    if rng is None or whole or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    raise InputError(
        f"rng is a numpy.random.Generator, a seed (a whole number, 0 or more) or None; got {rng!r}."
    )
