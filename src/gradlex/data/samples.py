"""Samples: what training, selection and evaluation draw their batches from."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset, default_collate

from gradlex.data.augment import Augmentation
from gradlex.data.inputs import Inputs, describe, leaves, map_inputs, named_leaves, numeric, printable
from gradlex.errors import InputError, RunError
from gradlex.seeding import kept_generators, reseed, seeded

Indices: TypeAlias = npt.NDArray[np.intp]
Collate: TypeAlias = Callable[[list[Any]], Any]
"""A list of samples -> the pair (inputs, targets), as a DataLoader's collate_fn."""

_Self = TypeVar("_Self", bound="Samples")
_CPU = torch.device("cpu")


class Samples(ABC):
    """Numbered samples with targets, given out in batches as the data holds them: clean, or augmented by a stream.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data.samples import ArraySamples
        >>> from gradlex.data import flip
        >>> images = torch.arange(6.0).reshape(2, 1, 1, 3)
        >>> samples = ArraySamples(images, torch.tensor([0, 1])).replace(augment=flip())
        >>> samples.clean(np.array([1]))[0]  # what selection sees
        tensor([[[[3., 4., 5.]]]])
        >>> samples.augmented(np.array([1]), np.random.default_rng(2))[0]  # what training may see
        tensor([[[[5., 4., 3.]]]])
    """

    augment: Augmentation | None = None
    channels_last = True
    """Whether images lie channels-last, the memory format in which convolutions are fastest."""
    targets: Tensor | None = None
    """All targets if they lie in memory; None for a Dataset."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def clean(self, indices: Indices) -> tuple[Any, Tensor]:
        """Inputs and targets as they are: what selection and evaluation see."""

    @abstractmethod
    def take(self: _Self, indices: Indices) -> _Self:
        """The samples of these numbers, numbered from 0."""

    @abstractmethod
    def to(self: _Self, device: torch.device) -> _Self:
        """The same samples, given out on this device."""

    def augmented(self, indices: Indices, rng: np.random.Generator) -> tuple[Any, Tensor]:
        """Inputs and targets for one gradient step."""
        batch, targets = self._drawn(indices, rng)
        if self.augment is None:
            return batch, targets
        expected, batch = describe(batch), self.augment(batch, rng)
        if describe(batch) != expected:
            raise RunError(f"augment must return a batch like the one it gets, {expected}, got {describe(batch)}.")
        return batch, targets

    def replace(self: _Self, **changes: Any) -> _Self:
        """A shallow copy with other attributes, such as augment."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    def _drawn(self, indices: Indices, rng: np.random.Generator) -> tuple[Any, Tensor]:
        return self.clean(indices)


class ArraySamples(Samples):
    """Inputs, a tensor or a structure of tensors, and one tensor of targets, kept once on the device.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data.samples import ArraySamples
        >>> words = {"ids": torch.tensor([[1, 2], [3, 4], [5, 6]]), "mask": torch.ones(3, 2)}
        >>> inputs, targets = ArraySamples(words, torch.tensor([0, 1, 0])).clean(np.array([2, 0]))
        >>> inputs["ids"].tolist(), targets.tolist()
        ([[5, 6], [1, 2]], [0, 0])
    """

    targets: Tensor

    def __init__(self, inputs: Inputs, targets: Tensor, what: str = "the data") -> None:
        number = len(leaves(inputs)[0])
        if not 0 < number == len(targets):
            raise InputError(f"{what} has {number} samples and {len(targets)} targets: make them match.")
        # Images lie as (N, height, width, channels); an array that already does so is not copied.
        self.stored: Any = map_inputs(lambda x: (x.permute(0, 2, 3, 1) if x.ndim == 4 else x).contiguous(), inputs)
        self.targets = targets

    def __len__(self) -> int:
        return len(self.targets)

    def clean(self, indices: Indices) -> tuple[Any, Tensor]:
        """Inputs and their targets."""
        index = torch.from_numpy(indices).to(self.targets.device)
        return map_inputs(lambda leaf: self._rows(leaf, index), self.stored), self.targets.index_select(0, index)

    def take(self, indices: Indices) -> ArraySamples:
        """The samples of these numbers, copied."""
        index = torch.from_numpy(indices)
        return self.replace(stored=map_inputs(lambda leaf: leaf[index], self.stored), targets=self.targets[index])

    def to(self, device: torch.device) -> ArraySamples:
        """The same samples on this device; not copied if they are there already."""
        stored = map_inputs(lambda leaf: leaf.to(device), self.stored)
        return self.replace(stored=stored, targets=self.targets.to(device))

    def _rows(self, leaf: Tensor, index: Tensor) -> Tensor:
        batch = leaf.index_select(0, index)
        if batch.ndim != 4:
            return batch
        batch = batch.permute(0, 3, 1, 2)
        # A clone, since images of one channel count as contiguous in both formats.
        return batch if self.channels_last else batch.clone(memory_format=torch.contiguous_format)


class DatasetSamples(Samples):
    """A map-style torch Dataset, with a second, clean view of the same samples if it transforms them.

    A DataLoader stands for its dataset and its collate_fn. A transform draws from the global generators of random,
    NumPy and torch. They are seeded for each batch from the derived stream, and in the clean view for each sample by
    its number, so that a case is always the same.
    """

    device = _CPU

    def __init__(self, data: Any, clean: Any = None) -> None:
        self._training, self._collate = _view(data)
        self._clean, self._clean_collate = _view(data if clean is None else clean)
        lengths = len(self._training), len(self._clean)
        if lengths[0] != lengths[1] or lengths[0] == 0:
            raise InputError(
                f"the data has {lengths[0]} samples, its clean view {lengths[1]}: give the same samples in both, at "
                "least one."
            )

    def __len__(self) -> int:
        return len(self._clean)

    def clean(self, indices: Indices) -> tuple[Any, Tensor]:
        """The clean view's samples, each with random numbers that follow from its own number."""
        return self._alone(indices, 0)

    def take(self, indices: Indices) -> DatasetSamples:
        """The samples of these numbers, as torch's Subset."""
        places: list[int] = indices.tolist()
        return self.replace(_training=Subset(self._training, places), _clean=Subset(self._clean, places))

    def to(self, device: torch.device) -> DatasetSamples:
        """The same samples, given out on this device."""
        return self.replace(device=device)

    @property
    def clean_varies(self) -> bool:
        """Whether the first clean samples change with the random numbers that they are drawn with."""
        one, other = (leaves(self._alone(np.arange(min(16, len(self))), shift)) for shift in range(2))
        if not all(bool(leaf.isfinite().all()) for leaf in one):
            raise InputError("the dataset's first samples contain NaN or infinity: fix or remove them.")
        return not all(map(torch.equal, one, other))

    def _drawn(self, indices: Indices, rng: np.random.Generator) -> tuple[Any, Tensor]:
        with seeded(int(rng.integers(2**32)), _CPU):
            return self._batch([self._training[place] for place in indices.tolist()], self._collate)

    def _alone(self, indices: Indices, shift: int) -> tuple[Any, Tensor]:
        samples = []
        with kept_generators(_CPU):
            for index in indices.tolist():
                reseed(index + shift, _CPU)
                samples.append(self._clean[index])
            return self._batch(samples, self._clean_collate)

    def _batch(self, samples: list[Any], collate: Collate) -> tuple[Any, Tensor]:
        try:
            inputs, targets = collate(samples)
        except Exception as error:  # torch's kinds, and whatever a collate function may raise
            raise InputError(
                f"the dataset's samples don't form a batch (inputs, targets): {printable(error)}. Return pairs of "
                "tensors of one shape, several inputs in one tuple or dict, ((x1, x2), y), or give a DataLoader with a "
                "collate_fn."
            ) from error
        inputs = dict(inputs) if isinstance(inputs, Mapping) else inputs  # such as a tokenizer's batch
        found = [*leaves(inputs), targets]
        whole = all(isinstance(each, Tensor) and each.ndim and len(each) == len(samples) for each in found)
        if not whole or len(found) < 2:
            raise InputError(
                f"a batch of {len(samples)} samples must hold tensors of {len(samples)} inputs and targets along the "
                f"first axis, got {describe(inputs)} and targets {describe(targets)}."
            )
        inputs = map_inputs(lambda x: x.float() if x.dtype == torch.float64 else x, inputs)
        return map_inputs(lambda x: x.to(self.device), inputs), numeric(targets, "the targets").to(self.device)


def fingerprint(*parts: Samples | None) -> str | None:
    """A SHA-256 over the types, shapes and bytes of the samples' arrays; None if one is a Dataset."""
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none" * 2)
        elif not isinstance(part, ArraySamples):
            return None
        else:
            for name, tensor in [*named_leaves(part.stored, ""), ("", part.targets)]:
                own = tensor.cpu().contiguous()
                kind = own.dtype if own.dtype == torch.bfloat16 else own.numpy().dtype.str
                digest.update(f"{name}{kind}{tuple(own.shape)}".encode())
                digest.update(own.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _view(data: Any) -> tuple[Any, Collate]:
    return (data.dataset, data.collate_fn) if isinstance(data, DataLoader) else (data, default_collate)
