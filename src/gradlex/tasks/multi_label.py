"""Multi-label classification: any number of labels a sample, each yes or no.

Training minimizes the binary cross-entropy of each label. F1 and average precision (mAP) are means over labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex._checks import check_fields
from gradlex.errors import InputError
from gradlex.tasks.task import Loss, Measure, Task, check_finite, full, shown


@dataclass(frozen=True, kw_only=True)
class MultiLabel(Task):
    """A row of 0 and 1 for each sample; a label is predicted where its output is above 0.

    Args:
        case_error: Selection sees the share of a case's labels that are wrong ("share"), or whether any is ("exact").
        criterion: A training loss in place of binary cross-entropy: a function of outputs and targets.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import MultiLabel
        >>> outputs = torch.tensor([[3.0, -1.0, 2.0, -2.0]])
        >>> targets = torch.tensor([[1, 0, 0, 0]])
        >>> MultiLabel().errors(outputs, targets)  # one label of four is wrong
        tensor([0.2500])
        >>> MultiLabel(case_error="exact").errors(outputs, targets)
        tensor([1.])
    """

    case_error: Literal["share", "exact"] = "share"
    criterion: Loss | None = None

    _name = "multi-label"
    measures = (
        *(Measure(name, fraction=True) for name in ("f1", "map", "exact")),
        Measure("loss", higher_is_better=False),
    )

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def graded(self) -> bool:
        """Whether a case can be solved in part."""
        return self.case_error != "exact"

    @property
    def selection(self) -> str:
        """Lexicase also for shares: they are counted, so that equally good candidates are equal."""
        return "lexicase(on_all_fail=survive)" if self.graded else "lexicase"

    def outputs(self, targets: Tensor) -> int:
        """One for each label."""
        return int(targets.shape[1])

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Raise an error for targets that aren't rows of 0 and 1, and for a wrong number of outputs."""
        if not isinstance(targets, Tensor) or targets.ndim != 2:
            raise InputError(f"multi-label needs targets (samples, labels) of 0 and 1, got {shown(targets)}.")
        check_finite(targets)
        wrong, labels = targets[(targets != 0) & (targets != 1)], targets.shape[1]
        if len(wrong):
            raise InputError(f"multi-label needs targets of 0 and 1, got {wrong[0]:g}: name another task.")
        if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] != labels:
            raise InputError(
                f"multi-label needs outputs (samples, {labels}), got {shown(outputs)}: change the model's last layer."
            )

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean binary cross-entropy over samples and labels, or the criterion's loss."""
        scores = full(outputs)
        criterion = self.criterion or F.binary_cross_entropy_with_logits
        return criterion(scores, targets.to(scores.dtype))

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The share of each case's labels that are wrong, or whether there is any."""
        # A network that answers NaN or infinity has failed.
        wrong = ((outputs > 0) != targets.bool()) | ~torch.isfinite(outputs)
        return wrong.any(dim=1).float() if self.case_error == "exact" else wrong.float().mean(dim=1)

    def predict(self, outputs: Tensor) -> Tensor:
        """A 0 or 1 for each label."""
        return (outputs > 0).long()

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """Of the whole set; F1 and average precision are means over the labels that some sample has."""
        from sklearn.metrics import average_precision_score

        scores, truths = [], []
        for outputs, targets in batches:
            scores.append(full(outputs).cpu().double().numpy())
            truths.append(targets.bool().cpu().numpy())
        score, truth = np.concatenate(scores), np.concatenate(truths)
        found = score > 0
        some = truth.any(axis=0)
        hits = (found & truth).sum(axis=0)
        f1 = 2 * hits / np.maximum(found.sum(axis=0) + truth.sum(axis=0), 1)
        ranks = np.nan_to_num(score[:, some])
        # The loss of a logit s and a label y: log(1 + e^s) - s y.
        losses = np.logaddexp(0, score) - score * truth
        whole = (found == truth).all(axis=1) & np.isfinite(score).all(axis=1)
        return {
            "f1": float(f1[some].mean()) if some.any() else 0.0,
            "map": float(average_precision_score(truth[:, some], ranks)) if some.any() else 0.0,
            "exact": float(whole.mean()),
            "loss": float(losses.mean()),
        }
