"""Parent: all that one generation hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # Algorithm 1 and its imports need no torch
    from torch import Tensor

State: TypeAlias = "Mapping[str, Tensor]"
"""A network's parameters and buffers by name, tied ones once."""

OptimizerState: TypeAlias = Mapping[str, Mapping[str, Any]]
"""An optimizer's state by parameter name: tensors and numbers."""


@dataclass(frozen=True, kw_only=True)
class Parent:
    """The network that the candidates of `generation` start from, with what else is inherited.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> parent = gradlex.Parent(generation=3, state={"weight": torch.ones(2)})
        >>> parent = parent.with_slot("slow", {"weight": torch.zeros(2)})  # what a promotion step remembers
        >>> parent.slots["slow"]["weight"]
        tensor([0., 0.])
    """

    generation: int
    state: State
    optimizer: OptimizerState | None = None
    """With `momentum="inherit"`: the chosen candidate's optimizer state; None in the first generation."""
    memory: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    """What the selection strategy remembers."""
    slots: Mapping[str, State] = field(default_factory=dict)
    """What promotion steps remember, each under its own name; saved with the parent."""

    def with_slot(self, name: str, values: State) -> Parent:
        """The same parent with one more slot."""
        return replace(self, slots={**self.slots, name: values})


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one generation took."""

    cases_evaluated: int
    """Pairs of candidate and case that were computed."""
    train_seconds: float
    select_seconds: float
