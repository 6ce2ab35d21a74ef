"""Problem: a model, its data and its task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from gradlex.data import Normalization, Samples
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
