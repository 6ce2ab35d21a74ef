"""Parent: all that one generation hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """The network that the candidates of `generation` start from, with what else is inherited."""

    generation: int
    state: State
    optimizer: OptimizerState | None = None
    """With `momentum="inherit"`: the chosen candidate's optimizer state; None in the first generation."""
    memory: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    """What the selection strategy remembers."""
    outer: State | None = None
    """With an outer momentum: the velocity of each trainable parameter; None in the first generation."""
    ema: State | None = None
    """With `ema`: the moving average of the parents; None in the first generation."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one generation took."""

    cases_evaluated: int
    """Pairs of candidate and case that were computed."""
    train_seconds: float
    select_seconds: float
