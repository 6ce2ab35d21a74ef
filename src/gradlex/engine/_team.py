"""Team: how the processes that compute one population exchange what they found; Serial is one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gradlex.engine._data_parallel import DataParallel
from gradlex.engine._worker import Candidate
from gradlex.population import Parent


class Team(Protocol):
    """Who trains which candidate, and what travels: rows of numbers, the parent, and tensors to average.

    Examples:
        >>> from gradlex.engine import Serial, Team
        >>> def told(team: Team, population):
        ...     if team.leads:  # one process writes and prints
        ...         print(team.mine(population))
        >>> told(Serial(), population=4)
        [0, 1, 2, 3]
    """

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        ...

    @property
    def parallel(self) -> DataParallel | None:
        """The processes that train this one's candidate together with it, where there are any."""
        ...

    def start_from(self, parent: Parent) -> Parent:
        """The leading process's parent, on every process."""
        ...

    def mine(self, population: int) -> list[int]:
        """The candidates that this process trains and evaluates."""
        ...

    def share(
        self, rows: Mapping[int, npt.NDArray[np.float32]], wanted: npt.NDArray[np.intp], length: int
    ) -> npt.NDArray[np.float32]:
        """Every wanted candidate's row of `length` numbers, from whoever has it: (wanted, length)."""
        ...

    def hand_over(self, index: int, candidates: Mapping[int, Candidate]) -> Candidate:
        """Candidate `index`, from whoever has it, on every process."""
        ...

    def spread(self, index: int, own: Tensor | None, like: Tensor) -> Tensor:
        """A tensor of candidate `index` from whoever has it (`own` there), on every process; flat, such as `like`."""
        ...

    def largest(self, number: int) -> int:
        """The largest of the processes' numbers."""
        ...

    def from_leader(self, value: Any) -> Any:
        """The leading process's value, plain data, on every process."""
        ...


class Serial:
    """One process that does everything itself.

    Examples:
        >>> from gradlex.engine import Serial
        >>> Serial().mine(3)  # one process trains every candidate
        [0, 1, 2]
    """

    leads = True
    parallel = None

    def start_from(self, parent: Parent) -> Parent:
        """The parent itself."""
        return parent

    def mine(self, population: int) -> list[int]:
        """All of them."""
        return list(range(population))

    def share(
        self, rows: Mapping[int, npt.NDArray[np.float32]], wanted: npt.NDArray[np.intp], length: int
    ) -> npt.NDArray[np.float32]:
        """The wanted rows as one table."""
        return np.stack([rows[int(index)] for index in wanted])

    def hand_over(self, index: int, candidates: Mapping[int, Candidate]) -> Candidate:
        """The candidate itself."""
        return candidates[index]

    def spread(self, index: int, own: Tensor | None, like: Tensor) -> Tensor:
        """The tensor itself."""
        assert own is not None  # every candidate is here
        return own

    def largest(self, number: int) -> int:
        """The number itself."""
        return number

    def from_leader(self, value: Any) -> Any:
        """The value itself."""
        return value
