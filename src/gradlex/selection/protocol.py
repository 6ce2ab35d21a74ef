"""What a selection strategy is given and what it returns.

Errors: lower is better, 0 is solved. Tables are (candidates, cases). A strategy is called with `cases`, a fresh random
order of case numbers, `errors`, which evaluates them, and `rng`, which breaks ties. What it must remember between
generations it reads from `errors.memory` and returns in `Choice.memory`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from gradlex.errors import InputError

Indices: TypeAlias = npt.NDArray[np.intp]
ErrorTable: TypeAlias = npt.NDArray[np.floating | np.integer]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rng: TypeAlias = np.random.Generator


class CaseErrors(Protocol):
    """The errors of one generation's candidates, evaluated only when a strategy asks for them.

    Examples:
        >>> from gradlex.selection import CaseErrors, Choice, select_parents
        >>> def first_case(cases, errors: CaseErrors, rng):  # the best candidate on the first case
        ...     pool = errors.candidates
        ...     table = errors(cases[:1], pool)  # (pool, 1); only this case is evaluated
        ...     return Choice(index=pool[table[:, 0].argmin()], reason="first_case", cases_used=1)
        >>> sorted(select_parents([[0, 1, 1], [1, 0, 0]], 10, method=first_case, rng=0).tolist())
        [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    """

    @property
    def candidates(self) -> Indices:
        """The candidates that did not diverge: the pool that selection starts from."""
        ...

    @property
    def memory(self) -> Mapping[str, npt.NDArray[np.generic]]:
        """What the strategy returned as `Choice.memory` a generation ago; empty in the first."""
        ...

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """The (pool, cases) errors of some candidates on some cases; infinity where one is not finite."""
        ...

    def matrix(self) -> ErrorTable:
        """Every error: (errors.candidates, all cases), cases in the data's own order."""
        ...


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which candidate becomes the parent, and why.

    Examples:
        >>> from gradlex.selection import Choice
        >>> Choice(index=2, reason="best_mean", cases_used=50).shares
        {2: 1.0}
        >>> Choice(index=2, reason="average", weights={1: 0.5, 2: 0.5}).shares  # the parent is a mean of two candidates
        {1: 0.5, 2: 0.5}
    """

    index: int
    reason: str
    """Why selection ended: sole_survivor, all_failed, exhausted, only_candidate, random, best_mean, ...; or where the
    weights come from: average, expected (exact chances), estimated (chances estimated by many draws)."""
    cases_used: int = 0
    """How many cases of the order the decision rests on."""
    survivors: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """The trail: an entry for each time the pool shrank, with the cases used so far and the candidates left."""
    deciding: tuple[int, ...] = ()
    """The case behind each entry of `survivors`, and last the case that all remaining candidates failed, if that ended
    it. Empty where no single case decides, but a mean or a batch."""
    memory: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    """Arrays that the same strategy gets back in the next generation as `errors.memory`."""
    weights: Mapping[int, float] | None = None
    """Candidates whose mean becomes the parent, by their weights above 0, which sum to 1. None: `index` alone."""
    evaluated: int = 0
    """How many pairs of candidate and case were evaluated."""
    disagreement: float | None = None
    """The share of evaluated pairs of candidates, case by case, of which one solves the case and the other doesn't."""

    @property
    def shares(self) -> Mapping[int, float]:
        """Every candidate's part in the parent, also where it is one candidate."""
        return {self.index: 1.0} if self.weights is None else self.weights


class Selection(Protocol):
    """A strategy: who becomes the parent.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Lexicase, Selection, TableErrors
        >>> select: Selection = Lexicase()
        >>> select(np.array([2, 0, 1]), TableErrors([[0, 0, 1], [1, 1, 0]]), np.random.default_rng(0)).index
        1
    """

    def __call__(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        """Choose one of `errors.candidates`, looking at `cases` in their order."""
        ...


@dataclass
class Trail:
    """What a filter of cases has seen so far: how many cases, which candidates they left, and which cases decided."""

    used: int = 0
    survivors: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    deciding: list[int] = field(default_factory=list)

    def shrink(self, pool: Indices, *case: np.integer) -> None:
        """Note that the last case used made the pool smaller; `case` is that case where it did so alone."""
        self.survivors.append((self.used, tuple(pool.tolist())))
        self.deciding += map(int, case)

    def choose(self, index: int, reason: str) -> Choice:
        """The Choice at the end of this trail."""
        survivors, deciding = tuple(self.survivors), tuple(self.deciding)
        return Choice(index=index, reason=reason, cases_used=self.used, survivors=survivors, deciding=deciding)


def as_numbers(given: Any) -> npt.NDArray[Any]:
    """Lists, arrays and tensors on any device, with gradients or in half precision, as a NumPy array."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
        given = given.float() if given.is_floating_point() and given.dtype.itemsize < 4 else given
    return np.asarray(given)


def as_array(table: Any) -> npt.NDArray[Any]:
    """A table as a NumPy array of numbers, (candidates, columns) with at least one of each; not copied if it is one."""
    try:
        array = as_numbers(table)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of several lengths
        raise InputError(f"an error table must become a NumPy array, and this doesn't: {error}") from error
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "biuf":
        raise InputError(
            "an error table holds real numbers and has the shape (candidates, cases) with at least one of each, got "
            f"{array.dtype} of shape {array.shape}."
        )
    return array.view(np.uint8) if array.dtype == bool else array


def worst_for_nan(array: npt.NDArray[Any]) -> ErrorTable:
    """The table with NaN and negative infinity turned into infinity, copied only where that is needed."""
    if array.dtype.kind != "f" or (finite := np.isfinite(array)).all():
        return array
    return np.where(finite, array, np.inf).astype(array.dtype)


def decided(cases: Indices, left: Indices, index: int, reason: str) -> Choice:
    """The Choice of a strategy that looks at all cases at once, which left these candidates."""
    return Choice(index=index, reason=reason, cases_used=len(cases), survivors=((len(cases), tuple(left.tolist())),))


def pick(pool: Indices, rng: Rng) -> int:
    """One of the pool, uniformly."""
    return int(pool[rng.integers(len(pool))])


def slices(cases: Indices, first: int = 32, largest: int = 1024) -> Iterator[Indices]:
    """Cut `cases` into consecutive slices of `first`, twice `first`, ... up to `largest` cases.

    Most selections end within a few cases, so evaluating many at once would be wasteful; larger slices later on are
    more efficient on a CPU or GPU. The sizes are fixed numbers: a network's last bits depend on its batch, so they must
    not depend on the machine.
    """
    start, size = 0, first
    while start < len(cases):
        yield cases[start : start + size]
        start += size
        size = min(2 * size, largest)
