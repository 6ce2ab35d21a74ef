"""A given error table in the place of networks: for tests, for research, for selection on its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gradlex.errors import InputError
from gradlex.selection._protocol import ErrorTable, Indices


class TableErrors:
    """CaseErrors over a (candidates, cases) array; what is not finite counts as infinity, the worst."""

    def __init__(
        self,
        table: npt.ArrayLike,
        candidates: npt.ArrayLike | None = None,
        memory: Mapping[str, npt.NDArray[np.generic]] | None = None,
    ) -> None:
        self._table = checked(table)
        everyone = np.arange(len(self._table)) if candidates is None else candidates
        self.candidates: Indices = np.asarray(everyone, dtype=np.intp)
        self.memory: Mapping[str, npt.NDArray[np.generic]] = memory or {}
        self.evaluated = 0
        """How many (candidate, case) pairs were asked for."""

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """The (pool, cases) part of the table."""
        self.evaluated += len(cases) * len(pool)
        return self._table[np.ix_(pool, cases)]

    def matrix(self) -> ErrorTable:
        """The rows of all candidates."""
        return self(np.arange(self._table.shape[1]), self.candidates)


def checked(table: npt.ArrayLike) -> ErrorTable:
    """The table with NaN and negative infinity turned into infinity, copied only where that is needed.

    Refused unless it has the shape (candidates, cases), at least one of each, and holds real numbers.
    """
    try:
        array = np.asarray(table)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of several lengths, a tensor with gradients
        raise InputError(f"an error table must become a NumPy array, and this does not: {error}") from error
    if array.ndim != 2 or array.size == 0:
        raise InputError(
            f"an error table has the shape (candidates, cases) with at least one of each, got {array.shape}."
        )
    if array.dtype == bool:
        return array.view(np.uint8)
    if np.issubdtype(array.dtype, np.integer):
        return array
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(
            f"an error table holds real numbers, got {array.dtype}. Convert it with `.astype(float)`."
        )
    lowest = array.min()  # NaN wherever there is one, without a mask as large as the table
    if np.isnan(lowest) or lowest == -np.inf:
        return np.where(np.isfinite(array), array, np.inf).astype(array.dtype)
    return array


def only_zero_and_one(table: ErrorTable) -> bool:
    """Whether every error is 0 (solved) or 1 (failed); infinity, a network that broke, is a failure too."""
    parts = (table[start : start + 256] for start in range(0, len(table), 256))  # no mask as large as it
    return all(bool(((part == 0) | (part == 1) | (part == np.inf)).all()) for part in parts)
