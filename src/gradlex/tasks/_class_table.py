"""Class by class: how many samples of each were taken for which, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    """One class."""

    number: int
    samples: int
    recall: float
    """The share of its samples that were taken for it; NaN without samples."""
    precision: float
    """The share of what was taken for it that is; NaN where nothing was."""
    taken_for: int | None
    """The class that its samples were most often mistaken for; None where they never were."""


@dataclass(frozen=True, kw_only=True)
class ClassTable:
    """A confusion matrix.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import ClassTable
        >>> predicted, targets = torch.tensor([0, 0, 1, 2, 1, 1]), torch.tensor([0, 0, 1, 2, 2, 2])
        >>> table = ClassTable.of(predicted, targets, classes=3)
        >>> table.counts
        array([[2, 0, 0],
               [0, 1, 0],
               [0, 2, 1]])
        >>> table.mistakes(1)  # class 2 was taken for class 1, twice
        [(2, 1, 2)]
    """

    counts: npt.NDArray[np.int64]
    """(classes, classes): rows are the samples' own classes, columns the predicted ones."""

    @classmethod
    def of(cls, predicted: Tensor, targets: Tensor, classes: int) -> ClassTable:
        """Count pairs of class numbers, (samples,) each."""
        pairs = targets.long() * classes + predicted.long()
        counts = torch.bincount(pairs, minlength=classes * classes).reshape(classes, classes)
        return cls(counts=counts.numpy())

    def rows(self) -> list[ClassRow]:
        """Every class, in the order of its number."""
        own, there, taken = self.counts.diagonal(), self.counts.sum(axis=1), self.counts.sum(axis=0)
        wrong = self.counts - np.diag(own)
        return [
            ClassRow(
                number=number,
                samples=int(there[number]),
                recall=float(own[number] / there[number]) if there[number] else float("nan"),
                precision=float(own[number] / taken[number]) if taken[number] else float("nan"),
                taken_for=int(wrong[number].argmax()) if wrong[number].any() else None,
            )
            for number in range(len(self.counts))
        ]

    def worst(self, count: int) -> list[ClassRow]:
        """The classes of which the fewest are right, worst first; those without samples are left out."""
        present = [row for row in self.rows() if row.samples]
        return sorted(present, key=lambda row: (row.recall, row.number))[:count]

    def mistakes(self, count: int) -> list[tuple[int, int, int]]:
        """The most frequent mistakes: a class, what it was taken for, how often."""
        wrong = self.counts - np.diag(self.counts.diagonal())
        order = np.argsort(-wrong, axis=None, kind="stable")[:count]
        places = [np.unravel_index(place, wrong.shape) for place in order]
        return [
            (int(row), int(column), int(wrong[row, column])) for row, column in places if wrong[row, column]
        ]
