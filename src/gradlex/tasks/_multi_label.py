"""Multi-label classification: any number of labels a sample, each yes or no.

Binary cross-entropy of each label to descend. Of the metrics, macro-averaged F1 and mAP are the means over labels;
average precision is the area under the precision-recall curve as the sum of (R_n - R_n-1) P_n, without interpolation
(Zhu 2004), as scikit-learn's `average_precision_score` has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex._checks import check_fields
from gradlex.errors import InputError
from gradlex.tasks._parts import check_finite, full, shown
from gradlex.tasks._task import Measure

_MEASURES = (
    Measure(name="f1", fraction=True),
    Measure(name="map", fraction=True),
    Measure(name="exact", fraction=True),
    Measure(name="loss", higher_is_better=False),
)


@dataclass(frozen=True, kw_only=True)
class MultiLabel:
    """A row of 0 and 1 a sample; a label is predicted where its output is above 0.

    Args:
        case_error: Selection sees the share of a case's labels that are wrong; whether any is (exact); or its loss.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import MultiLabel
        >>> outputs = torch.tensor([[3.0, -1.0, 2.0, -2.0]])
        >>> targets = torch.tensor([[1, 0, 0, 0]])
        >>> MultiLabel().predict(outputs)
        tensor([[1, 0, 1, 0]])
        >>> MultiLabel().errors(outputs, targets)  # one label of four is wrong
        tensor([0.2500])
        >>> MultiLabel(case_error="exact").errors(outputs, targets)
        tensor([1.])
    """

    case_error: Literal["share", "exact", "loss"] = "share"

    measures = _MEASURES

    def __post_init__(self) -> None:
        """Refuse an unknown kind of error."""
        check_fields(self)

    @property
    def graded(self) -> bool:
        """Whether a case can be solved in part."""
        return self.case_error != "exact"

    @property
    def selection(self) -> str:
        """Shares are counted, so that equal ones are equal; losses differ in their last bits."""
        return "epsilon-lexicase" if self.case_error == "loss" else "lexicase"

    def outputs(self, targets: Tensor) -> int:
        """One a label."""
        return int(targets.shape[1])

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Refuse targets that are not rows of 0 and 1, and outputs that are not one a label."""
        if not isinstance(targets, Tensor) or targets.ndim != 2:
            raise InputError(
                f"multi-label needs targets (samples, labels) of 0 and 1, got {shown(targets)}. For one class a sample "
                "use classification."
            )
        check_finite(targets)
        wrong = (targets != 0) & (targets != 1)
        if wrong.any():
            raise InputError(
                f"multi-label needs targets of 0 and 1, got {targets[wrong][0].item():g}: for other numbers use "
                "regression."
            )
        if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] != targets.shape[1]:
            raise InputError(
                f"multi-label with {targets.shape[1]} labels needs a model that returns (samples, {targets.shape[1]}), "
                f"got {shown(outputs)}: give its last layer an output for each label."
            )

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean binary cross-entropy over samples and labels."""
        return F.binary_cross_entropy_with_logits(full(outputs), targets.to(full(outputs).dtype))

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The share of wrong labels, whether there is any, or the mean loss of each case's labels."""
        if self.case_error == "loss":
            each = F.binary_cross_entropy_with_logits(
                full(outputs), targets.to(full(outputs).dtype), reduction="none"
            )
            return each.mean(dim=1)
        wrong = ~_right(outputs, targets)
        return wrong.any(dim=1).float() if self.case_error == "exact" else wrong.float().mean(dim=1)

    def predict(self, outputs: Tensor) -> Tensor:
        """A 0 or 1 for each label."""
        return (outputs > 0).long()

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """F1 and average precision are means over the labels that some sample has."""
        scores, truths = [], []
        for outputs, targets in batches:
            scores.append(full(outputs).cpu().double().numpy())
            truths.append(targets.bool().cpu().numpy())
        score, truth = np.concatenate(scores), np.concatenate(truths)
        found = score > 0
        some = truth.any(axis=0)
        hits = (found & truth).sum(axis=0)
        f1 = 2 * hits / np.maximum(found.sum(axis=0) + truth.sum(axis=0), 1)
        precisions = [_average_precision(score[:, label], truth[:, label]) for label in np.flatnonzero(some)]
        # The loss of a logit s and a label y: log(1 + e^s) - s y.
        losses = np.logaddexp(0, score) - score * truth
        whole = (found == truth).all(axis=1) & np.isfinite(score).all(axis=1)
        return {
            "f1": float(f1[some].mean()) if some.any() else 0.0,
            "map": float(np.mean(precisions)) if precisions else 0.0,
            "exact": float(whole.mean()),
            "loss": float(losses.mean()),
        }


def _right(outputs: Tensor, targets: Tensor) -> Tensor:
    """Which labels are predicted as they are; a network that answers NaN or infinity has failed."""
    return ((outputs > 0) == targets.bool()) & torch.isfinite(outputs)


def _average_precision(score: npt.NDArray[np.float64], truth: npt.NDArray[np.bool_]) -> float:
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(truth[order])
    last = np.append(np.diff(score[order]) != 0, True)  # samples of one score are ranked together
    precision, recall = (hits / np.arange(1, len(hits) + 1))[last], hits[last] / hits[-1]
    return float((np.diff(recall, prepend=0.0) * precision).sum())
