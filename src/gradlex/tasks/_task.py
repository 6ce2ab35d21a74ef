"""What is learnt: a loss for SubGD, an error per case for selection, a score for people."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Task(Protocol):
    """The three views of a network's outputs that training needs."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of a batch, to be descended."""
        ...

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The (cases,) errors: lower is better, 0 is solved."""
        ...

    def score(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The batch's summed accuracy and summed loss, for evaluation."""
        ...
