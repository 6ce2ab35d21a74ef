"""Classification: cross-entropy to descend, the predicted class (or the loss) to select on.

Label smoothing as Szegedy et al. 2016, section 7. Balanced accuracy is the mean over classes of the share of each
that is right (Brodersen et al. 2010).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor

from gradlex._checks import check_fields
from gradlex._devices import has_float64
from gradlex.errors import InputError
from gradlex.tasks._class_table import ClassTable
from gradlex.tasks._parts import constant, full, plain_numbers, shown
from gradlex.tasks._task import Measure

CaseError: TypeAlias = Literal["correct", "loss"]

_MEASURES = (Measure(name="accuracy", fraction=True), Measure(name="loss", higher_is_better=False))
_BY_CLASS = (
    Measure(name="balanced_accuracy", fraction=True),
    Measure(name="worst_class_accuracy", fraction=True),
)
_TOP5 = Measure(name="top5_accuracy", fraction=True)
_MANY = 10


@dataclass(frozen=True)
class Classification:
    """One class a case, by its number from 0; a case is solved when the largest output is its class.

    A network with one output says yes (class 1) where it is above 0.

    Args:
        case_error: Selection sees whether a case's class is right, or its cross-entropy ("loss").
        label_smoothing: The share of each target that is spread over all classes in the training loss.
        class_weights: The weight of each class in the training loss, or "balanced": as rare classes need to count as
            much as common ones.
        classes: How many there are (default: as many as the network tells apart).

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Classification
        >>> outputs, targets = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> Classification().errors(outputs, targets)  # right, wrong
        tensor([0., 1.])
        >>> Classification(case_error="loss").errors(outputs, targets)
        tensor([0.1269, 1.3133])
    """

    case_error: CaseError = "correct"
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0
    class_weights: tuple[float, ...] | Literal["balanced"] | None = None
    classes: Annotated[int, Ge(1)] | None = None

    def __post_init__(self) -> None:
        """Refuse options that there are not."""
        check_fields(self)
        if self.class_weights is not None and self.class_weights != "balanced":
            weights = plain_numbers("class_weights", self.class_weights)
            if min(weights) < 0 or max(weights) == 0:
                raise InputError(f"class_weights must be at least 0, and not all 0, got {list(weights)}.")
            object.__setattr__(self, "class_weights", weights)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Accuracy and the mean cross-entropy; of a known number of classes also by class, and the best five."""
        by_class = _BY_CLASS if self.classes is not None else ()
        return (*_MEASURES, *by_class, *((_TOP5,) if (self.classes or 0) > _MANY else ()))

    @property
    def graded(self) -> bool:
        """Whether the loss is selected on."""
        return self.case_error == "loss"

    def outputs(self, targets: Tensor) -> int:
        """One a class."""
        return int(targets.max()) + 1

    def fitted(self, outputs: Tensor, targets: Iterable[Tensor]) -> Classification:
        """For as many classes as the network tells apart; balanced weights by the training labels."""
        classes = self.classes or _classes(outputs)
        if self.class_weights != "balanced":
            return replace(self, classes=classes)
        counts = torch.zeros(classes, dtype=torch.int64)
        for batch in targets:
            counts += torch.bincount(batch.long().cpu(), minlength=classes)
        weights = counts.sum() / (classes * counts.clamp(min=1)) * (counts > 0)
        return replace(self, classes=classes, class_weights=tuple(weights.tolist()))

    @property
    def learnt(self) -> dict[str, Any]:
        """The number of classes, and their weights."""
        found = {"classes": self.classes, "class_weights": self.class_weights}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items() if v is not None}

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Refuse labels that are not whole numbers from 0, and outputs that do not hold a number for each class."""
        if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2):
            raise InputError(
                f"classification needs a model that returns a tensor (samples, classes), got {shown(outputs)}."
            )
        if not isinstance(targets, Tensor) or targets.ndim != 1 or targets.is_complex():
            raise InputError(
                f"classification needs labels that are whole numbers, one per sample, got {shown(targets)}."
            )
        if targets.is_floating_point() and not bool((targets == targets.round()).all()):
            raise InputError(
                "classification needs labels that are whole numbers, one per sample, got fractions: number the "
                "classes from 0, or name another task, such as regression."
            )
        lowest, highest, classes = int(targets.min()), int(targets.max()), _classes(outputs)
        if lowest < 0:
            raise InputError(f"labels must be from 0 to classes - 1, got {lowest}.")
        if highest >= classes and outputs.ndim == 1:
            raise InputError(
                f"classification needs a model that returns a tensor (samples, classes), got {shown(outputs)} for "
                f"labels from {lowest} to {highest}."
            )
        if highest >= classes:
            shifted = f"number the classes from 0 (labels - {lowest}), or " if lowest else ""
            numbers = ", or name the task: regression" if outputs.shape[1] == 1 else ""
            raise InputError(
                f"the model has {outputs.shape[1]} outputs, the labels go from {lowest} to {highest}: {shifted}give "
                f"its last layer {highest + 1} outputs{numbers}."
            )
        if self.classes not in (None, classes):
            raise InputError(
                f"there are {self.classes} classes, and the model tells {classes} apart: give its last layer "
                f"{self.classes} outputs."
            )
        if self.class_weights not in (None, "balanced") and len(self.class_weights) != classes:
            raise InputError(f"class_weights has {len(self.class_weights)} weights for {classes} classes.")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy, with the weights of classes and smoothed labels where they are asked for.

        Targets may be class probabilities, (samples, classes), as transforms that mix samples make them.
        """
        weights = None
        if self.class_weights not in (None, "balanced"):
            weights = constant(tuple(self.class_weights), full(outputs).dtype, outputs.device)
        if not _one_output(outputs):
            soft = targets.is_floating_point() and targets.shape == outputs.shape
            labels = targets if soft else targets.long()
            return F.cross_entropy(
                full(outputs), labels, weight=weights, label_smoothing=self.label_smoothing
            )
        scores = full(outputs).reshape(len(targets))
        wanted = targets.to(scores.dtype) * (1 - self.label_smoothing) + self.label_smoothing / 2
        each = None if weights is None else weights[targets.long()]
        found = F.binary_cross_entropy_with_logits(scores, wanted, weight=each)
        return found if each is None else found / each.mean()

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """0 where the class is right and 1 where it is not, or the cross-entropy of each case."""
        if self.case_error == "loss":
            return self.losses(outputs, targets)
        return (~_correct(outputs, targets)).float()

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The cross-entropy of each case."""
        return _cross_entropy(outputs, targets, "none")

    def predict(self, outputs: Tensor) -> Tensor:
        """The number of the class."""
        return _found(outputs)

    def probabilities(self, outputs: Tensor) -> Tensor:
        """(samples, classes)."""
        if _one_output(outputs):
            yes = full(outputs).reshape(len(outputs)).sigmoid()
            return torch.stack([1 - yes, yes], dim=1)
        return full(outputs).softmax(dim=1)

    def class_table(self, predicted: Tensor, targets: Tensor) -> ClassTable:
        """How many samples of each class were taken for which."""
        classes = self.classes or 1 + max(int(predicted.max()), int(targets.max()))
        return ClassTable.of(predicted, targets, classes)

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """The share of right answers, and the mean cross-entropy; both also by class where they are known.

        A class that no sample of the set has does not count.
        """
        # One tensor for all batches: small tensors kept between a loop's large ones let the heap grow.
        sums: Tensor | None = None
        by_class = torch.zeros(2, self.classes or 1, dtype=torch.int64)
        samples = 0
        for outputs, targets in batches:
            if sums is None:
                wide = torch.float64 if has_float64(outputs.device) else torch.float32
                sums = torch.zeros(3, dtype=wide, device=outputs.device)
                by_class = by_class.to(outputs.device)
            correct = _correct(outputs, targets)
            sums[0] += correct.sum()
            sums[1] += _cross_entropy(outputs, targets, "sum")
            samples += len(targets)
            if self.classes is not None:
                labels = targets.long()
                by_class[0] += torch.bincount(labels[correct], minlength=self.classes)
                by_class[1] += torch.bincount(labels, minlength=self.classes)
            if (self.classes or 0) > _MANY:
                best = (outputs.topk(5, dim=1).indices == targets[:, None]).any(dim=1)
                sums[2] += (best & torch.isfinite(outputs.amax(dim=1))).sum()
        assert sums is not None  # no set is empty
        accuracy, loss, top5 = (sums / samples).tolist()
        by_class = by_class.cpu()  # not every device has float64
        there = by_class[1] > 0
        shares = by_class[0][there].double() / by_class[1][there] if self.classes else torch.zeros(1)
        found = {
            "accuracy": accuracy,
            "loss": loss,
            "balanced_accuracy": float(shares.mean()),
            "worst_class_accuracy": float(shares.min()),
            "top5_accuracy": top5,
        }
        return {measure.name: found[measure.name] for measure in self.measures}


def _one_output(outputs: Tensor) -> bool:
    return outputs.ndim == 1 or outputs.shape[1] == 1


def _classes(outputs: Tensor) -> int:
    """As many as outputs; one output tells two apart."""
    return 2 if _one_output(outputs) else int(outputs.shape[1])


def _found(outputs: Tensor) -> Tensor:
    return (outputs.reshape(len(outputs)) > 0).long() if _one_output(outputs) else outputs.argmax(dim=1)


def _correct(outputs: Tensor, targets: Tensor) -> Tensor:
    # argmax takes NaN for the largest value, so a network that answers NaN, or infinity, must be failed explicitly;
    # minus infinity for a class says only that it is none of them.
    largest = outputs.reshape(len(outputs)) if _one_output(outputs) else outputs.amax(dim=1)
    return (_found(outputs) == targets) & torch.isfinite(largest)


def _cross_entropy(outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    if not _one_output(outputs):
        return F.cross_entropy(full(outputs), targets.long(), reduction=reduction)
    scores = full(outputs).reshape(len(targets))
    return F.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype), reduction=reduction)
