"""Samples that lie in memory as arrays, on the device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradlex.data._augment import Augmentation, augmented_alike, draw
from gradlex.data._inputs import Inputs, leaves, map_inputs
from gradlex.data._normalization import Normalization
from gradlex.data._transfer import sent
from gradlex.errors import InputError


class ArraySamples:
    """Inputs and one tensor of targets, kept once on the device.

    Inputs are a tensor, (N, channels, height, width), (N, features) or anything the model takes, or a structure of
    such tensors. They reach the model as they are, unless a normalization is given, which is for one tensor only.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import ArraySamples
        >>> words = {"ids": torch.tensor([[1, 2], [3, 4], [5, 6]]), "mask": torch.ones(3, 2)}
        >>> samples = ArraySamples(words, torch.tensor([0, 1, 0]))
        >>> inputs, targets = samples.clean(np.array([2, 0]))
        >>> inputs["ids"], targets
        (tensor([[5, 6],
                [1, 2]]), tensor([0, 0]))
    """

    def __init__(
        self,
        inputs: Inputs,
        targets: Tensor,
        *,
        normalization: Normalization | None = None,
        augment: Augmentation | None = None,
    ) -> None:
        self.channels_last = True
        self._x: Any = map_inputs(_stored, inputs)
        self._y = targets
        self._augment = augment
        self._scale: tuple[Tensor, Tensor] | None = None
        if normalization is not None:
            if not isinstance(inputs, Tensor):
                raise InputError(
                    f"a normalization is for inputs of one tensor, got a {type(inputs).__name__}: normalize each "
                    "before."
                )
            self._scale = normalization.tensors(self._batch(torch.zeros(1, dtype=torch.int64)))

    def __len__(self) -> int:
        return len(self._y)

    @property
    def targets(self) -> Tensor:
        """All targets."""
        return self._y

    def clean(self, indices: npt.NDArray[np.intp]) -> tuple[Any, Tensor]:
        """Normalized inputs and their targets."""
        index = sent(torch.from_numpy(indices), self._y.device)
        return self._normalized(self._batch(index)), self._y.index_select(0, index)

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Any, Tensor]:
        """Augmented, then normalized inputs and their targets; all that the device must be told travels at once."""
        numbers = draw(self._augment, self._shape(len(indices)), rng)
        packed = np.concatenate([indices[None], numbers]) if len(numbers) else indices[None]
        told = sent(torch.from_numpy(packed), self._y.device)
        batch, targets = self._batch(told[0]), self._y.index_select(0, told[0])
        if self._augment is not None:
            drawn = told[1:].to(batch.device) if len(numbers) else None
            batch, targets = augmented_alike(self._augment, batch, targets, rng, drawn)
        return self._normalized(batch), targets

    def clean_batches(self, batches: Sequence[npt.NDArray[np.intp]]) -> Iterator[tuple[Any, Tensor]]:
        """The same, batch by batch."""
        return map(self.clean, batches)

    def augmented_batches(
        self, batches: Sequence[npt.NDArray[np.intp]], rngs: Sequence[np.random.Generator]
    ) -> Iterator[tuple[Any, Tensor]]:
        """The same, batch by batch."""
        return map(self.augmented, batches, rngs)

    def with_augment(self, augment: Augmentation | None) -> ArraySamples:
        """The same samples, not copied, with another augmentation."""
        other = copy.copy(self)
        other._augment = augment
        return other

    def with_check(self, check: Callable[[Inputs, Tensor], None]) -> ArraySamples:
        """The same samples: their targets lie here to be checked whole."""
        return self

    def contiguous(self) -> ArraySamples:
        """The same samples, not copied, for a network that takes images only as torch makes them (`view`)."""
        other = copy.copy(self)
        other.channels_last = False
        return other

    @property
    def nbytes(self) -> int:
        """What the inputs take in memory."""
        return sum(leaf.nbytes for leaf in leaves(self._x))

    def map_into(self, path: Path, *, write: bool) -> None:
        """Have the inputs in a file that other processes map too, in place of memory; `write` fills it first."""
        shared = torch.from_file(str(path), shared=True, size=self.nbytes, dtype=torch.uint8)
        views: dict[int, Tensor] = {}
        start = 0
        # The widest types first: then each begins at a multiple of its own width.
        for leaf in sorted(leaves(self._x), key=lambda leaf: -leaf.dtype.itemsize):
            views[id(leaf)] = shared[start : start + leaf.nbytes].view(leaf.dtype).view(leaf.shape)
            start += leaf.nbytes
            if write:
                views[id(leaf)].copy_(leaf)
        self._x = map_inputs(lambda leaf: views[id(leaf)], self._x)

    def to(self, device: torch.device) -> ArraySamples:
        """The same samples on this device; not copied where they are there already."""
        moved = copy.copy(self)
        moved._x, moved._y = map_inputs(lambda leaf: leaf.to(device), self._x), self._y.to(device)
        moved._scale = None if self._scale is None else (self._scale[0].to(device), self._scale[1].to(device))
        return moved

    def _shape(self, samples: int) -> tuple[int, ...] | None:
        """Of a batch of so many; None for a structure."""
        if not isinstance(self._x, Tensor):
            return None
        own = self._x.shape[1:]
        return (samples, own[2], own[0], own[1]) if len(own) == 3 else (samples, *own)

    def _batch(self, index: Tensor) -> Any:
        if isinstance(self._x, Tensor):
            return self._rows(self._x, index)
        return map_inputs(lambda leaf: self._rows(leaf, index), self._x)

    def _rows(self, leaf: Tensor, index: Tensor) -> Tensor:
        batch = leaf.index_select(0, index.to(leaf.device))
        if batch.ndim != 4:
            return batch
        batch = batch.permute(0, 3, 1, 2)
        # A clone, since images of one channel count as contiguous in both formats.
        return batch if self.channels_last else batch.clone(memory_format=torch.contiguous_format)

    def _normalized(self, batch: Any) -> Any:
        if self._scale is None:
            return batch
        shift, factor = self._scale
        return (batch - shift).mul_(factor)


def _stored(leaf: Tensor) -> Tensor:
    """Images lie channels-last, the fast format of convolutions; an array that already does is not copied."""
    return leaf.permute(0, 2, 3, 1).contiguous() if leaf.ndim == 4 else leaf.contiguous()
