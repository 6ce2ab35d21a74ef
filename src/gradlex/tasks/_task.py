"""Task: what is learnt. A loss for SubGD, an error per case for selection, metrics for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True)
class Measure:
    """One metric of a task: how it is read and printed."""

    name: str
    higher_is_better: bool = True
    fraction: bool = False
    """Whether it lies between 0 and 1 and is printed in per cent."""


class Task(Protocol):
    """The views of a network's outputs that a run needs."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The metrics that `metrics` returns; the first is the primary one."""
        ...

    @property
    def graded(self) -> bool:
        """Whether errors can be other than 0 (solved) and 1 (failed)."""
        ...

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Refuse (InputError) targets or outputs that this task cannot learn from.

        `inputs` and `outputs` are of a few samples; `targets` may be all of them.
        """
        ...

    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """The mean loss of a batch, to be descended."""
        ...

    def errors(self, outputs: Any, targets: Any) -> Tensor:
        """The (cases,) errors: lower is better, 0 is solved."""
        ...

    def metrics(self, batches: Iterable[tuple[Any, Any]]) -> dict[str, float]:
        """The metrics of a whole set, given as batches of outputs and targets, computed lazily."""
        ...
