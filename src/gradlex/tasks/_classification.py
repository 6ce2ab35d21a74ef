"""Classification: cross-entropy to descend, the predicted class (or the loss) to select on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex.recipe import CaseError


@dataclass(frozen=True)
class Classification:
    """One class a case; a case is solved when the largest output is its class."""

    case_error: CaseError = "correct"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy."""
        return F.cross_entropy(_full(outputs), targets)

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """0 where the class is right and 1 where it is not, or the cross-entropy of each case."""
        if self.case_error == "loss":
            return F.cross_entropy(_full(outputs), targets, reduction="none")
        return (~_correct(outputs, targets)).float()

    def score(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """How many cases are right, and the summed cross-entropy."""
        return _correct(outputs, targets).sum(), F.cross_entropy(_full(outputs), targets, reduction="sum")


def _correct(outputs: Tensor, targets: Tensor) -> Tensor:
    # argmax takes NaN for the largest value, so a network that answers NaN, or infinity, must be failed explicitly;
    # minus infinity for a class says only that it is none of them.
    return (outputs.argmax(dim=1) == targets) & torch.isfinite(outputs.amax(dim=1))


def _full(outputs: Tensor) -> Tensor:
    # A loss of half-precision outputs is computed in float32, as autocast would.
    return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs
