"""Classification: cross-entropy to descend, the predicted class (or the loss) to select on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex._checks import check_fields
from gradlex.errors import InputError
from gradlex.tasks._task import Measure

CaseError: TypeAlias = Literal["correct", "loss"]

_MEASURES = (Measure(name="accuracy", fraction=True), Measure(name="loss", higher_is_better=False))


@dataclass(frozen=True)
class Classification:
    """One class a case, by its number from 0; a case is solved when the largest output is its class.

    `case_error="loss"` selects on each case's cross-entropy rather than on right or wrong.
    """

    case_error: CaseError = "correct"

    def __post_init__(self) -> None:
        """Refuse an unknown kind of error."""
        check_fields(self)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Accuracy, and the mean cross-entropy."""
        return _MEASURES

    @property
    def graded(self) -> bool:
        """Whether the loss is selected on."""
        return self.case_error == "loss"

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Refuse labels that are not whole numbers from 0, and outputs that do not hold a number for each class."""
        if not isinstance(outputs, Tensor) or outputs.ndim != 2:
            shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise InputError(
                f"classification needs a model that returns a tensor (samples, classes), got {shape}."
            )
        if not isinstance(targets, Tensor) or targets.ndim != 1 or targets.is_complex():
            what = (
                f"{targets.dtype} of shape {tuple(targets.shape)}"
                if isinstance(targets, Tensor)
                else type(targets)
            )
            raise InputError(
                f"classification needs labels that are whole numbers, one per sample, got {what}."
            )
        if targets.is_floating_point() and not bool((targets == targets.round()).all()):
            raise InputError(
                "classification needs labels that are whole numbers, one per sample, got fractions: number the "
                "classes from 0."
            )
        lowest, highest = int(targets.min()), int(targets.max())
        if lowest < 0:
            raise InputError(f"labels must be from 0 to classes - 1, got {lowest}.")
        if highest >= outputs.shape[1]:
            shifted = f"number the classes from 0 (labels - {lowest}), or " if lowest else ""
            raise InputError(
                f"the model has {outputs.shape[1]} outputs, the labels go from {lowest} to {highest}: {shifted}give "
                f"its last layer {highest + 1} outputs."
            )

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy."""
        return F.cross_entropy(_full(outputs), targets.long())

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """0 where the class is right and 1 where it is not, or the cross-entropy of each case."""
        if self.case_error == "loss":
            return F.cross_entropy(_full(outputs), targets.long(), reduction="none")
        return (~_correct(outputs, targets)).float()

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """The share of right answers, and the mean cross-entropy."""
        # One tensor for all batches: small tensors kept between a loop's large ones let the heap grow.
        sums: Tensor | None = None
        samples = 0
        for outputs, targets in batches:
            if sums is None:
                wide = torch.float32 if outputs.device.type == "mps" else torch.float64
                sums = torch.zeros(2, dtype=wide, device=outputs.device)
            sums[0] += _correct(outputs, targets).sum()
            sums[1] += F.cross_entropy(_full(outputs), targets.long(), reduction="sum")
            samples += len(targets)
        assert sums is not None  # no set is empty
        accuracy, loss = (sums / samples).tolist()
        return {"accuracy": accuracy, "loss": loss}


def _correct(outputs: Tensor, targets: Tensor) -> Tensor:
    # argmax takes NaN for the largest value, so a network that answers NaN, or infinity, must be failed explicitly;
    # minus infinity for a class says only that it is none of them.
    return (outputs.argmax(dim=1) == targets) & torch.isfinite(outputs.amax(dim=1))


def _full(outputs: Tensor) -> Tensor:
    # A loss of half-precision outputs is computed in float32, as autocast would.
    return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs
