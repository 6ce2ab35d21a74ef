"""Classification: cross-entropy to minimize, the predicted class (or the loss) to select on.

Label smoothing as in Szegedy et al. 2016, section 7. Balanced accuracy is the mean over classes of the share of each
that is right (Brodersen et al. 2010).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex._checks import Count, Share, check_fields
from gradlex.errors import InputError
from gradlex.tasks.task import Loss, Measure, Numbers, Task, check_finite, full, plain_options, shown


@dataclass(frozen=True, kw_only=True)
class Classification(Task):
    """One class a sample, numbered from 0; a case is solved if the largest output is its class.

    A network with one output predicts class 1 if the output is above 0, and class 0 otherwise.

    Args:
        case_error: Selection sees whether a case's class is right ("correct"), or its cross-entropy ("loss").
        label_smoothing: The share of each target that is spread over all classes in the training loss.
        class_weights: The weight of each class in the training loss, or "balanced", which gives all classes the
            same total weight.
        classes: The number of classes (default: the number of the network's outputs).
        criterion: A function of outputs and class numbers to minimize in place of cross-entropy.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Classification
        >>> outputs, targets = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> Classification().errors(outputs, targets)  # right, wrong
        tensor([0., 1.])
        >>> Classification(case_error="loss").errors(outputs, targets)
        tensor([0.1269, 1.3133])
    """

    case_error: Literal["correct", "loss"] = "correct"
    label_smoothing: Share = 0.0
    class_weights: Numbers | Literal["balanced"] | None = None
    classes: Count | None = None
    criterion: Loss | None = None

    _name = "classification"
    measures = (
        Measure("accuracy", fraction=True),
        Measure("loss", higher_is_better=False),
        Measure("balanced_accuracy", fraction=True),
        Measure("worst_class_accuracy", fraction=True),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        weights = self.class_weights
        if isinstance(weights, tuple) and (min(weights) < 0 or max(weights) == 0):
            raise InputError(f"class_weights must be at least 0, and not all 0, got {list(weights)}.")

    @property
    def graded(self) -> bool:
        """Whether errors are losses."""
        return self.case_error == "loss"

    def outputs(self, targets: Tensor) -> int:
        """One for each class."""
        return self.classes or int(targets.max()) + 1

    def fitted(self, outputs: Tensor, targets: Tensor) -> Classification:
        """With the number of classes, and with balanced weights computed from the training labels."""
        classes, weights = self.classes or _scores(outputs).shape[1], self.class_weights
        if weights == "balanced":
            counts = torch.bincount(targets.long().cpu(), minlength=classes)
            weights = tuple((counts.sum() / (classes * counts.clamp(min=1)) * (counts > 0)).tolist())
        return replace(self, classes=classes, class_weights=weights)

    @property
    def learned(self) -> dict[str, Any]:
        """The number of classes, and their weights."""
        return plain_options(self, "classes", "class_weights")

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Raise an error for labels that aren't whole numbers from 0, and for a wrong number of outputs."""
        whole = "classification needs labels that are whole numbers from 0, one per sample, got"
        if not isinstance(targets, Tensor) or targets.ndim != 1 or targets.is_complex():
            column = isinstance(targets, Tensor) and targets.ndim == 2 and targets.shape[1] == 1
            raise InputError(f"{whole} {shown(targets)}{': give y[:, 0]' if column else ''}.")
        check_finite(targets)
        wrong = targets[(targets != targets.long()) | (targets < 0)]
        if len(wrong):
            raise InputError(f"{whole} {wrong[0]:g}: number the classes from 0, or name another task.")
        if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2):
            raise InputError(f"classification needs outputs (samples, classes), got {shown(outputs)}.")
        lowest, highest, classes = int(targets.min()), int(targets.max()), _scores(outputs).shape[1]
        if self.classes not in (None, classes):
            raise InputError(f"the model has outputs for {classes} classes: give its last layer {self.classes}.")
        if highest >= classes and self.classes is not None:
            raise InputError(
                f"the labels go up to {highest}, but the task has {classes} classes, 0 to {classes - 1}: leave out "
                "samples of other classes, or put some into the training part too."
            )
        if highest >= classes:
            shift = f"number the classes from 0 (labels - {lowest}), or " if lowest else ""
            raise InputError(
                f"the model has {outputs[0].numel()} outputs, the labels go from {lowest} to {highest}: {shift}give "
                f"its last layer {highest + 1} outputs, or name another task, such as regression."
            )
        if isinstance(self.class_weights, tuple) and len(self.class_weights) != classes:
            raise InputError(f"class_weights has {len(self.class_weights)} weights for {classes} classes.")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy, with class weights and label smoothing, or the criterion's loss."""
        if self.criterion is not None:
            one = _one_output(outputs)
            scores = full(outputs).reshape(len(targets)) if one else full(outputs)
            return self.criterion(scores, targets.to(scores.dtype) if one else targets.long())
        scores, weights = _scores(outputs), None
        if isinstance(self.class_weights, tuple):
            weights = scores.new_tensor(self.class_weights)
        return F.cross_entropy(scores, targets.long(), weight=weights, label_smoothing=self.label_smoothing)

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """0 where the class is right and 1 where it is wrong, or the cross-entropy of each case."""
        if self.case_error == "loss":
            return F.cross_entropy(_scores(outputs), targets.long(), reduction="none")
        return (~_correct(outputs, targets)).float()

    def predict(self, outputs: Tensor) -> Tensor:
        """The number of the class, (samples,)."""
        return _scores(outputs).argmax(dim=1)

    def probabilities(self, outputs: Tensor) -> Tensor:
        """The probability of each class, (samples, classes)."""
        return _scores(outputs).softmax(dim=1)

    def class_table(self, predicted: Tensor, targets: Tensor) -> ClassTable:
        """How many samples of each class were predicted as which class."""
        classes = self.classes or 1 + max(int(predicted.max()), int(targets.max()))
        pairs = targets.long().cpu() * classes + predicted.long().cpu()
        return ClassTable(torch.bincount(pairs, minlength=classes**2).reshape(classes, classes).numpy())

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """Accuracy and mean cross-entropy, and accuracy by class over the classes that occur in the set."""
        loss, right, there = 0.0, torch.zeros(1), torch.zeros(1)
        for outputs, targets in batches:
            scores, labels = _scores(outputs).cpu(), targets.long().cpu()
            loss += float(F.cross_entropy(scores, labels, reduction="sum"))
            right = right + torch.bincount(labels[_correct(scores, labels)], minlength=scores.shape[1]).double()
            there = there + torch.bincount(labels, minlength=scores.shape[1]).double()
        shares, samples = (right / there)[there > 0], float(there.sum())
        values = (float(right.sum()) / samples, loss / samples, float(shares.mean()), float(shares.min()))
        return dict(zip((measure.name for measure in self.measures), values, strict=True))


def _one_output(outputs: Tensor) -> bool:
    return outputs.ndim == 1 or outputs.shape[1] == 1


def _scores(outputs: Tensor) -> Tensor:
    """(samples, classes) in full precision; the sigmoid of one output is the softmax of 0 and the output."""
    scores = full(outputs)
    return F.pad(scores.reshape(len(scores), 1), (1, 0)) if _one_output(scores) else scores


def _correct(outputs: Tensor, targets: Tensor) -> Tensor:
    # argmax takes NaN for the largest value, so a network that answers NaN, or infinity, must be failed explicitly;
    # minus infinity for a class says only that it is none of them.
    largest, found = _scores(outputs).max(dim=1)
    return (found == targets) & torch.isfinite(largest)


@dataclass(frozen=True)
class ClassTable:
    """A confusion matrix.

    Examples:
        >>> import numpy as np
        >>> from gradlex.tasks.classification import ClassTable
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
