"""Selection on its own, from a given error table: no network, no torch, any number of parents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradlex._checks import Count, Natural, check
from gradlex.errors import InputError
from gradlex.selection import protocol
from gradlex.selection.chances import TooManyPools
from gradlex.selection.lexicase import Lexicase
from gradlex.selection.protocol import Choice, ErrorTable, Floats, Indices, Rng, Selection
from gradlex.selection.random_choice import Sgd
from gradlex.selection.registry import SELECTIONS, make_selection
from gradlex.selection.strategy import Strategy

_DRAWS = 40_000
"""Parents drawn for an estimate: no standard error is above 0.5 / sqrt(40,000) = 0.0025."""
_SEED = 20_220_425
"""Of the estimate's draws: the same table has the same estimate on every process and after a resume."""


class TableErrors:
    """CaseErrors over a (candidates, cases) array; all that is not finite counts as infinity, the worst.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors
        >>> errors = TableErrors([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
        >>> errors(np.array([2]), np.array([0, 1])).tolist()  # case 2 of the first two candidates: (pool, cases)
        [[0], [1]]
    """

    def __init__(self, table: npt.ArrayLike, memory: Mapping[str, npt.NDArray[np.generic]] | None = None) -> None:
        self._table = protocol.worst_for_nan(protocol.as_array(table))
        self.candidates: Indices = np.arange(len(self._table))
        self.memory: Mapping[str, npt.NDArray[np.generic]] = memory or {}

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """The (pool, cases) part of the table."""
        return self._table[np.ix_(pool, cases)]

    def matrix(self) -> ErrorTable:
        """The whole table."""
        return self._table


def select_parents(
    errors: npt.ArrayLike,
    k: int,
    method: str | Selection | Callable[..., Choice] = "lexicase",
    rng: Rng | int | None = None,
    **options: Any,
) -> Indices:
    """Choose `k` parents from an (individuals, cases) table of errors: their indices, of shape (k,).

    Each parent is selected independently, by its own random order of cases; a down-sample is drawn once a call.

    Args:
        errors: An array, a list of rows or a torch tensor. Lower is better; NaN and infinity count as worst.
        k: How many parents.
        method: What `make_selection` takes: a name, a strategy, or a function, which is called `k` times.
        rng: A NumPy generator, a seed, or None for fresh randomness.
        options: Options of a method given by name. If `on_all_fail` is not among them, it is "random" on a table of
            0/1 errors, as in training, and "survive", the classic rule, on a table of graded errors.

    Examples:
        >>> from gradlex.selection import select_parents
        >>> errors = [[0, 0, 1], [1, 1, 0], [1, 1, 1]]  # (individuals, cases)
        >>> sorted(set(select_parents(errors, k=100, rng=0).tolist()))  # the third solves no case
        [0, 1]
    """
    strategy, table = _read(errors, method, options)
    given = rng if isinstance(rng, np.random.Generator) else check("rng", Natural | None, rng)
    return _drawn(strategy, table, check("k", Count, k), np.random.default_rng(given))


@dataclass(frozen=True, kw_only=True, eq=False)
class Chances:
    """How likely each candidate is to be chosen, and how well that is known.

    Examples:
        >>> from gradlex.selection import selection_chances
        >>> chances = selection_chances([[0, 0, 0, 1], [1, 1, 1, 0]])
        >>> chances.values.tolist(), chances.exact
        ([0.75, 0.25], True)
    """

    values: Floats
    """(candidates,), summing to 1."""
    standard_error: Floats
    """(candidates,): 0 where `exact`, otherwise of the draws behind the estimate."""
    exact: bool
    """Whether the values are exact to rounding, rather than estimated."""


def selection_chances(errors: npt.ArrayLike, method: str | Selection = "lexicase", **options: Any) -> Chances:
    """The chance of each candidate of a (candidates, cases) table to be chosen, with the defaults of `select_parents`.

    Exact chances take time that grows with the pools that can be reached: few for up to 12 candidates or with
    continuous errors, 2^candidates in the worst case. Beyond a fixed amount of work they are estimated from 40,000
    parents drawn with a fixed seed.

    Examples:
        >>> from gradlex.selection import selection_chances
        >>> selection_chances([[0, 0, 1], [1, 1, 0]], "tournament", size=2).values.tolist()  # of the least mean error
        [1.0, 0.0]
    """
    return chances_of(*_read(errors, method, options))


def selection_probabilities(errors: npt.ArrayLike, method: str | Selection = "lexicase", **options: Any) -> Floats:
    """The values of `selection_chances`, (candidates,).

    Examples:
        >>> from gradlex.selection import selection_probabilities
        >>> selection_probabilities([[0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1]]).tolist()
        [0.75, 0.25, 0.0]
    """
    return selection_chances(errors, method, **options).values


def chances_of(strategy: Selection, table: ErrorTable) -> Chances:
    """The chances on a (candidates, cases) table."""
    strategy, values = _settled(strategy, table), None
    if isinstance(strategy, Strategy):
        strategy = strategy.over_samples(table.shape[1])
        try:
            values = strategy.probabilities(protocol.worst_for_nan(table))
        except TooManyPools:
            parents = _drawn(strategy, table, _DRAWS, np.random.default_rng(_SEED))
            counts = np.bincount(parents, minlength=len(table))
            # The error of a share of 0 or 1 is not 0: it is taken for a candidate with one draw more, or less.
            shares = np.clip(counts, 1, _DRAWS - 1) / _DRAWS
            deviation = np.sqrt(shares * (1 - shares) / _DRAWS)
            return Chances(values=counts / _DRAWS, standard_error=deviation, exact=False)
    if values is None:
        raise InputError(
            f"'{strategy}' has no exact probabilities; {exact_selections()} do: draw many parents with "
            "`select_parents` instead."
        )
    return Chances(values=values, standard_error=np.zeros(len(table)), exact=True)


def exact_selections() -> str:
    """The selections with exact chances, for a message."""
    known = ", ".join(
        name for name, strategy in SELECTIONS.items() if strategy().has_exact_chances and strategy is not Sgd
    )
    return f"{known} (epsilon-lexicase unless its epsilon is the pool's own)"


def _read(errors: npt.ArrayLike, method: Any, options: Mapping[str, Any]) -> tuple[Selection, ErrorTable]:
    """The strategy and the (candidates, cases) table."""
    strategy = make_selection(method, **options)
    if isinstance(strategy, Sgd):
        raise InputError("'sgd' trains one candidate and selects none. Use 'lexicase', or 'random' for a control.")
    table = protocol.as_array(errors)
    return _settled(strategy, table), table


def _settled(strategy: Selection, table: ErrorTable) -> Selection:
    """The strategy with its all-fail rule settled, by a look at the table only if it is open."""
    if not isinstance(strategy, Lexicase) or strategy.on_all_fail == "survive":
        return strategy
    parts = np.array_split(table, -(-len(table) // 256))  # no mask as large as the table
    binary = all(((part == 0) | (part == 1) | ~np.isfinite(part)).all() for part in parts)
    return strategy.settled(graded=not binary)


def _drawn(strategy: Selection, table: ErrorTable, k: int, rng: Rng) -> Indices:
    """`k` parents: at once, by the probabilities, or one after another."""
    if not isinstance(strategy, Lexicase):  # which handles NaN in the pass over the table that it takes anyway
        table = protocol.worst_for_nan(table)
    if isinstance(strategy, Strategy):
        parents = strategy.parents(table, k, rng)
        if parents is not None:
            return parents
    given, cases = TableErrors(table), table.shape[1]
    return np.array([strategy(rng.permutation(cases), given, rng).index for _ in range(k)], dtype=np.intp)
