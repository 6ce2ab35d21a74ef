"""Samples that lie in memory as one array, on the device."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradlex.data._augment import Augmentation
from gradlex.data._normalization import Normalization
from gradlex.data._samples import augmented_alike


class ArraySamples:
    """One tensor of inputs and one of targets, kept once on the device.

    Inputs are (N, channels, height, width), (N, features) or anything the model takes; bytes are normalised,
    other types are given to the model as they are unless a normalisation is passed.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        *,
        normalization: Normalization | None = None,
        augment: Augmentation | None = None,
    ) -> None:
        self.channels_last = True
        # Pictures lie channels-last, the fast format of convolutions; an array that already does is not copied.
        self._pictures = x.ndim == 4
        self._x = x.permute(0, 2, 3, 1).contiguous() if self._pictures else x.contiguous()
        self._y = y
        self._augment = augment
        self._scale = normalization.tensors(self._batch(np.arange(1))) if normalization else None

    def __len__(self) -> int:
        return len(self._y)

    def clean(self, indices: npt.NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        """Normalised inputs and their targets."""
        return self._normalized(self._batch(indices)), self._targets(indices)

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Augmented, then normalised inputs and their targets."""
        batch = self._batch(indices)
        if self._augment is not None:
            batch = augmented_alike(self._augment, batch, rng)
        return self._normalized(batch), self._targets(indices)

    def with_augment(self, augment: Augmentation | None) -> ArraySamples:
        """The same samples, not copied, with another augmentation."""
        other = copy.copy(self)
        other._augment = augment
        return other

    def contiguous(self) -> ArraySamples:
        """The same samples, not copied, for a network that takes maps only as torch makes them (`view`)."""
        other = copy.copy(self)
        other.channels_last = False
        return other

    @property
    def nbytes(self) -> int:
        """What the inputs take in memory."""
        return self._x.nbytes

    def map_into(self, path: Path, *, write: bool) -> None:
        """Have the inputs in a file that other processes map too, in place of memory; `write` fills it first."""
        shared = torch.from_file(str(path), shared=True, size=self._x.numel(), dtype=self._x.dtype)
        if write:
            shared.view(self._x.shape).copy_(self._x)
        self._x = shared.view(self._x.shape)

    def to(self, device: torch.device) -> ArraySamples:
        """The same samples on this device; not copied where they are there already."""
        moved = copy.copy(self)
        moved._x, moved._y = self._x.to(device), self._y.to(device)
        moved._scale = None if self._scale is None else (self._scale[0].to(device), self._scale[1].to(device))
        return moved

    def _batch(self, indices: npt.NDArray[np.intp]) -> Tensor:
        batch = self._x.index_select(0, torch.from_numpy(indices).to(self._x.device))
        if not self._pictures:
            return batch
        batch = batch.permute(0, 3, 1, 2)
        # A clone, since pictures of one channel count as contiguous in both formats.
        return batch if self.channels_last else batch.clone(memory_format=torch.contiguous_format)

    def _targets(self, indices: npt.NDArray[np.intp]) -> Tensor:
        return self._y.index_select(0, torch.from_numpy(indices).to(self._y.device))

    def _normalized(self, batch: Tensor) -> Tensor:
        if self._scale is None:
            return batch
        shift, factor = self._scale
        return (batch - shift).mul_(factor)
