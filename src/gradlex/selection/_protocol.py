"""What a selection strategy is given and what it returns.

Errors: lower is better, 0 is solved. Tables are (candidates, cases). A strategy is a pure function
`select(cases, errors, rng, *, options) -> Choice`: `cases` is a fresh random order of case indices, `errors`
evaluates them, `rng` breaks ties. What it must remember between generations it reads from `errors.memory` and
returns in `Choice.memory`. Its options are its keyword-only parameters: their annotations say what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Indices: TypeAlias = npt.NDArray[np.intp]
ErrorTable: TypeAlias = npt.NDArray[np.floating | np.integer]


class CaseErrors(Protocol):
    """The errors of one generation's candidates, evaluated only when a strategy calls for them.

    Examples:
        >>> from gradlex.selection import CaseErrors, Choice, select_parents
        >>> def first_case(cases, errors: CaseErrors, rng):  # whoever is best on the first case
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
    """Which candidate becomes the parent, and how it came to that.

    Examples:
        >>> from gradlex.selection import Choice
        >>> Choice(index=2, reason="best_mean", cases_used=50).shares
        {2: 1.0}
        >>> Choice(index=2, reason="average", weights={1: 0.5, 2: 0.5}).shares  # the parent is a mean of two candidates
        {1: 0.5, 2: 0.5}
    """

    index: int
    reason: str
    """Why selection ended: sole_survivor, all_failed, exhausted, only_candidate, random, best_mean, ..., or how the
    weights came about: average, expected (by exact chances), estimated (by estimated ones)."""
    cases_used: int = 0
    """How many cases of the order the decision rests on."""
    columns_used: int | None = None
    """How many samples these cases hold, where a case is a group of them."""
    survivors: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """The trail: after how many cases which candidates were left, an entry for each time the pool shrank."""
    deciding: tuple[int, ...] = ()
    """The case that made each entry of `survivors`, and last the case that all who were left failed, where that ended
    it. Empty where no single case decides: a mean or a batch does."""
    memory: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    """Arrays that the same strategy gets back in the next generation as `errors.memory`."""
    weights: Mapping[int, float] | None = None
    """Candidates whose mean becomes the parent, by their weights above 0, which sum to 1. None: `index` alone."""

    @property
    def shares(self) -> Mapping[int, float]:
        """Every part in the parent, also where it is one candidate."""
        return {self.index: 1.0} if self.weights is None else self.weights


class Trail:
    """What a filter of cases has seen so far: how many cases, whom they left, and which cases decided."""

    def __init__(self) -> None:
        self.used = 0
        self._survivors: list[tuple[int, tuple[int, ...]]] = []
        self._deciding: list[int] = []

    def shrink(self, pool: Indices, case: np.integer | None = None) -> None:
        """Note that the pool has become smaller with the last case used, which is `case` where it alone did it."""
        self._survivors.append((self.used, tuple(pool.tolist())))
        self.decide(case)

    def decide(self, case: np.integer | None) -> None:
        """Note a case that decided alone."""
        if case is not None:
            self._deciding.append(int(case))

    def choose(self, index: int, reason: str) -> Choice:
        """The Choice at the end of this trail."""
        return Choice(
            index=index,
            reason=reason,
            cases_used=self.used,
            survivors=tuple(self._survivors),
            deciding=tuple(self._deciding),
        )


class Selection(Protocol):
    """A strategy with its options bound: who becomes the parent.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Selection, TableErrors, bind
        >>> def winners(select: Selection, table):
        ...     rng = np.random.default_rng(0)
        ...     return {select(rng.permutation(3), TableErrors(table), rng).index for _ in range(50)}
        >>> winners(bind("lexicase"), [[0, 0, 1], [1, 1, 0]])
        {0, 1}
        >>> winners(bind("tournament"), [[0, 0, 1], [1, 1, 0]])
        {0}
    """

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        """Choose one of `errors.candidates`, looking at `cases` in their order."""
        ...


def pick(pool: Indices, rng: np.random.Generator) -> int:
    """One of the pool, uniformly."""
    return int(pool[rng.integers(len(pool))])


FIRST_SLICE = 32
LARGEST_SLICE = 1024


def slices(cases: Indices, first: int = FIRST_SLICE, largest: int = LARGEST_SLICE) -> Iterator[Indices]:
    """Cut `cases` into consecutive slices of `first`, twice `first`, ... up to `largest` cases.

    Most selections end within a few cases, so evaluating many at once would be wasteful; those that continue get
    larger and larger slices, which a CPU or GPU evaluates more efficiently. The sizes are fixed numbers: a network's
    last bits depend on its batch, so they must not depend on the machine.
    """
    start, size = 0, first
    while start < len(cases):
        yield cases[start : start + size]
        start += size
        size = min(2 * size, largest)
