"""What is reported of a network: the task's metrics and, for classes, the worst class and the calibration."""

from __future__ import annotations

import torch
from torch import Tensor

from gradlex.tasks import Classification, Task

_BINS = 15


def measured(task: Task, outputs: Tensor, targets: Tensor) -> dict[str, float]:
    """The metrics of a whole set."""
    found = dict(task.metrics([(outputs, targets)]))
    if isinstance(task, Classification) and outputs.ndim == 2 and outputs.shape[1] > 1:
        if "worst_class_accuracy" not in found:  # the task has it where it knows the number of classes
            found["worst_class_accuracy"] = worst_class(outputs, targets)
        found["calibration_error"] = calibration_error(outputs, targets)
    return found


def worst_class(outputs: Tensor, targets: Tensor) -> float:
    """The accuracy on the class that is recognized worst, of those in the set."""
    right = outputs.argmax(dim=1) == targets
    return min(float(right[targets == label].float().mean()) for label in torch.unique(targets))


def calibration_error(outputs: Tensor, targets: Tensor) -> float:
    """The expected calibration error (Naeini et al. 2015; Guo et al. 2017), 15 bins of equal width.

    The mean distance, over the samples, of a bin's accuracy from its mean confidence.
    """
    confidence, label = outputs.double().softmax(dim=1).max(dim=1)
    right = (label == targets).double()
    place = (confidence * _BINS).ceil().clamp(1, _BINS).long() - 1
    gaps = torch.zeros(_BINS, dtype=torch.float64).index_add_(0, place, right - confidence)
    return float(gaps.abs().sum() / len(targets))
