"""Which class was predicted as which, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ClassTable:
    """A confusion matrix.

    Examples:
        >>> import numpy as np
        >>> from gradlex.tasks import ClassTable
        >>> table = ClassTable(np.array([[2, 0, 0], [0, 1, 0], [0, 2, 1]]))
        >>> table.recall.round(2).tolist()
        [1.0, 1.0, 0.33]
        >>> table.mistakes(1)  # class 2 was predicted as class 1, twice
        [(2, 1, 2)]
    """

    counts: npt.NDArray[np.int64]
    """(classes, classes): rows are the samples' own classes, columns the predicted ones."""

    @property
    def recall(self) -> npt.NDArray[np.float64]:
        """The share of each class's samples that were predicted as it; NaN without samples."""
        there = self.counts.sum(axis=1)
        return np.where(there > 0, self.counts.diagonal() / np.maximum(there, 1), np.nan)

    def mistakes(self, count: int) -> list[tuple[int, int, int]]:
        """The most frequent mistakes: a class, the class it was predicted as, how often."""
        wrong = self.counts - np.diag(self.counts.diagonal())
        order = np.argsort(-wrong, axis=None, kind="stable")[:count]
        pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
        return [(int(row), int(column), int(wrong[row, column])) for row, column in pairs if wrong[row, column]]
