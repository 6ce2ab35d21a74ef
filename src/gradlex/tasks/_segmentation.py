"""Segmentation: a class for every pixel; a case is an image.

An image's error is 1 - IoU, the mean over the classes that it holds or is said to hold of intersection over union
(Jaccard 1912; Everingham et al. 2010), or the share of its wrong pixels. mIoU is computed from the counts of the
whole set, as PASCAL VOC does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex._checks import check_fields
from gradlex.errors import InputError
from gradlex.tasks._parts import check_labels, full, shown
from gradlex.tasks._task import Measure

_MEASURES = (
    Measure(name="miou", fraction=True),
    Measure(name="pixel_accuracy", fraction=True),
    Measure(name="loss", higher_is_better=False),
)


@dataclass(frozen=True, kw_only=True)
class Segmentation:
    """Targets (samples, height, width) of class numbers, outputs (samples, classes, height, width).

    Args:
        case_error: Selection sees 1 - IoU of each image, the share of its wrong pixels, or their mean loss.
        ignore_index: Pixels of this number count for nothing.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Segmentation
        >>> targets = torch.tensor([[[0, 0], [1, 1]]])  # one image of 2 x 2 pixels
        >>> outputs = torch.zeros(1, 2, 2, 2)
        >>> outputs[:, 1, 1, 1] = 5  # class 1 in the last pixel, class 0 elsewhere
        >>> Segmentation(case_error="pixels").errors(outputs, targets)
        tensor([0.2500])
        >>> Segmentation().predict(outputs)
        tensor([[[0, 0],
                 [0, 1]]])
    """

    case_error: Literal["iou", "pixels", "loss"] = "iou"
    ignore_index: int = -100

    selection = "epsilon-lexicase"
    measures = _MEASURES
    graded = True

    def __post_init__(self) -> None:
        """Refuse an unknown kind of error."""
        check_fields(self)

    def outputs(self, targets: Tensor) -> int:
        """One a class."""
        return int(targets.max()) + 1

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Refuse targets that are not maps of class numbers, and outputs that are not a map for each class."""
        if not isinstance(targets, Tensor) or targets.ndim != 3:
            raise InputError(
                f"segmentation needs targets (samples, height, width) of class numbers, got {shown(targets)}."
            )
        if not isinstance(outputs, Tensor) or outputs.ndim != 4:
            raise InputError(
                f"segmentation needs a model that returns (samples, classes, height, width), got {shown(outputs)}."
            )
        check_labels(targets, outputs.shape[1], self.ignore_index, "pixels")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy over the pixels that count."""
        if outputs.shape[2:] != targets.shape[1:]:  # not in `check`: sizes may differ between batches
            raise InputError(
                f"the model returns maps of {tuple(outputs.shape[2:])}, the targets are {tuple(targets.shape[1:])}: "
                "have it scale its outputs up to the size of the targets."
            )
        return F.cross_entropy(full(outputs), targets.long(), ignore_index=self.ignore_index)

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """1 - IoU, the share of wrong pixels, or the mean loss of each image."""
        counts = targets != self.ignore_index
        if self.case_error == "loss":
            losses = F.cross_entropy(
                full(outputs), targets.long(), ignore_index=self.ignore_index, reduction="none"
            )
            return losses.flatten(1).sum(dim=1) / counts.flatten(1).sum(dim=1)
        found, sound = outputs.argmax(dim=1), torch.isfinite(outputs).flatten(1).all(dim=1)
        if self.case_error == "pixels":
            wrong = ((found != targets) & counts).flatten(1).sum(dim=1)
            errors = wrong.float() / counts.flatten(1).sum(dim=1)
        else:
            table = self._confusion(found, targets, outputs.shape[1])
            both, present = _overlaps(table)
            errors = 1 - (both * present).sum(dim=1) / present.sum(dim=1)
        return torch.where(sound, errors, torch.ones_like(errors))

    def predict(self, outputs: Tensor) -> Tensor:
        """The class of each pixel."""
        return outputs.argmax(dim=1)

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """mIoU is the mean over the classes that the set holds, or that are found in it."""
        table: Tensor | None = None
        loss, pixels = 0.0, 0
        for outputs, targets in batches:
            own = (
                self._confusion(outputs.argmax(dim=1), targets, outputs.shape[1])
                .sum(dim=0, keepdim=True)
                .cpu()
            )
            table = own if table is None else table + own
            loss += float(
                F.cross_entropy(
                    full(outputs), targets.long(), ignore_index=self.ignore_index, reduction="sum"
                )
            )
            pixels += int((targets != self.ignore_index).sum())
        assert table is not None  # no set is empty
        both, present = _overlaps(table)
        return {
            "miou": float((both * present).sum() / present.sum()),
            "pixel_accuracy": float(table.diagonal(dim1=1, dim2=2).sum() / table.sum()),
            "loss": loss / pixels,
        }

    def _confusion(self, found: Tensor, targets: Tensor, classes: int) -> Tensor:
        """How many pixels of each class, (samples, true, found), are found to be of each."""
        samples = len(targets)
        counts = targets != self.ignore_index
        image = torch.arange(samples, device=targets.device).view(-1, 1, 1).expand_as(targets)
        place = ((image * classes + targets.long()) * classes + found)[counts]
        return torch.bincount(place, minlength=samples * classes**2).view(samples, classes, classes)


def _overlaps(table: Tensor) -> tuple[Tensor, Tensor]:
    """The intersection over union of each class, (samples, classes), and which classes there are."""
    both = table.diagonal(dim1=1, dim2=2)
    union = table.sum(dim=1) + table.sum(dim=2) - both
    return both / union.clamp(min=1), union > 0
