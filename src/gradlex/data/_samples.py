"""Samples: what the engine draws batches from. Clean by default; augmented only when a stream is given."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradlex.data._augment import Augmentation
from gradlex.errors import InputError


class Samples(Protocol):
    """Numbered samples with targets, given out in batches on the training device."""

    def __len__(self) -> int: ...

    @property
    def channels_last(self) -> bool:
        """Whether pictures, and a network's weights with them, lie channels-last, which convolutions are fastest in."""
        ...

    def clean(self, indices: npt.NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        """Inputs and targets as they are: what selection and evaluation see."""
        ...

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets for one gradient step."""
        ...

    def to(self, device: torch.device) -> Samples:
        """The same samples, given out on this device."""
        ...


def augmented_alike(augment: Augmentation, batch: Tensor, rng: np.random.Generator) -> Tensor:
    """The augmented batch; another type would be normalised wrongly, another shape not at all."""
    shape, dtype = batch.shape, batch.dtype
    augmented = augment(batch, rng)
    if not isinstance(augmented, Tensor) or augmented.dtype != dtype or augmented.shape != shape:
        what = (
            f"{augmented.dtype} of shape {tuple(augmented.shape)}"
            if isinstance(augmented, Tensor)
            else type(augmented).__name__
        )
        raise InputError(
            f"augment must return a batch like the one it gets, {dtype} of shape {tuple(shape)}, got {what}."
        )
    return augmented
