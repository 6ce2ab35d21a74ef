"""Problem: a model, its data and its task; and what every one of them must satisfy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from gradlex.data import Normalization, Samples
from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Problem:
    """All that a run trains and tests, with its resolved recipe."""

    recipe: Recipe
    model: nn.Module
    train: Samples
    test: Samples | None
    task: Task
    data: dict[str, Any]
    """What recipe.json says of the data: fingerprint, sizes, classes, normalisation."""
    normalization: Normalization | None
    multiply_adds: float
    """Of the network, for one sample."""
    device: torch.device

    def to(self, device: torch.device) -> Problem:
        """The same problem on another device, for another worker."""
        return replace(
            self,
            model=self.model.to(device),
            train=self.train.to(device),
            test=None if self.test is None else self.test.to(device),
            device=device,
        )


def try_out(model: nn.Module, samples: Samples) -> tuple[int, float]:
    """How many classes the model answers for, and its multiply-adds a sample, found by showing it two samples."""
    model.eval()
    inputs, _ = samples.clean(np.arange(min(2, len(samples))))
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            outputs = model(inputs)
    except Exception as error:  # whatever a model of the user's may raise
        raise InputError(
            f"the model cannot take inputs of the shape {tuple(inputs.shape)} and type {inputs.dtype}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(inputs):
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(f"the model must return a tensor (samples, classes), got {shape}.")
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError("the model has no trainable parameter.")
    return int(outputs.shape[1]), counter.get_total_flops() / 2 / len(inputs)


def check_width(width: int, num_classes: int) -> None:
    """Refuse a model that has no output for some class."""
    if width < num_classes:
        raise InputError(
            f"the model has {width} outputs, the labels go from 0 to {num_classes - 1}: "
            f"give its last layer {num_classes} outputs."
        )
