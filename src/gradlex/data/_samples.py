"""Samples: what the engine draws batches from. Clean by default; augmented only when a stream is given."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from gradlex.data._augment import Augmentation
from gradlex.data._normalization import Normalization
from gradlex.errors import InputError


class Samples(Protocol):
    """Numbered samples with targets, given out in batches on the training device."""

    def __len__(self) -> int: ...

    def clean(self, indices: npt.NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        """Inputs and targets as they are: what selection and evaluation see."""
        ...

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets for one gradient step."""
        ...

    def to(self, device: torch.device) -> Samples:
        """The same samples, given out on this device."""
        ...


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
            batch = _augmented_alike(self._augment, batch, rng)
        return self._normalized(batch), self._targets(indices)

    def with_augment(self, augment: Augmentation | None) -> ArraySamples:
        """The same samples, not copied, with another augmentation."""
        other = copy.copy(self)
        other._augment = augment
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
        return batch.permute(0, 3, 1, 2) if self._pictures else batch

    def _targets(self, indices: npt.NDArray[np.intp]) -> Tensor:
        return self._y.index_select(0, torch.from_numpy(indices).to(self._y.device))

    def _normalized(self, batch: Tensor) -> Tensor:
        if self._scale is None:
            return batch
        shift, factor = self._scale
        return (batch - shift).mul_(factor)


class DatasetSamples:
    """A map-style torch Dataset, with a second, clean view of the same samples where it transforms them.

    A transform draws from the global generators of random, NumPy and torch. They are seeded for each batch from the
    derived stream, in the clean view for each sample by its number, so that a case is always the same, and put back
    afterwards.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        clean_view: Dataset[Any] | None = None,
        augment: Augmentation | None = None,
        num_classes: int,
    ) -> None:
        self._training, self._clean = dataset, clean_view if clean_view is not None else dataset
        self._augment, self._num_classes = augment, num_classes
        self._device: torch.device | None = None
        if len(self._clean) != len(self._training):  # type: ignore[arg-type]  # map-style: has a length
            raise InputError(
                f"the clean view has {len(self._clean)} samples and the data {len(self._training)}: "  # type: ignore[arg-type]
                "they must be two views of the same samples in the same order."
            )

    def __len__(self) -> int:
        return len(self._clean)  # type: ignore[arg-type]  # map-style: has a length

    def clean(self, indices: npt.NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        """The clean view's samples."""
        with _global_generators((0, 0, 0)):
            return self._collated([_alone(self._clean, int(i), 0) for i in indices], indices)

    @property
    def clean_varies(self) -> bool:
        """Whether the clean view draws random numbers: some of its first samples are other ones with other numbers."""
        with _global_generators((0, 0, 0)):
            return any(
                not _alike(_alone(self._clean, i, 0), _alone(self._clean, i, 1 + again))
                for i in range(min(4, len(self)))
                for again in range(4)
            )

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """The dataset's own transformed samples, then the batch augmentation."""
        with _global_generators(rng.integers(0, 2**32, 3).tolist()):
            inputs, targets = self._collated([self._training[int(i)] for i in indices], indices)
        return (_augmented_alike(self._augment, inputs, rng) if self._augment else inputs), targets

    def to(self, device: torch.device) -> DatasetSamples:
        """The same samples, given out on this device."""
        moved = copy.copy(self)
        moved._device = device
        return moved

    def with_augment(self, augment: Augmentation | None) -> DatasetSamples:
        """The same samples with another augmentation of whole batches."""
        other = copy.copy(self)
        other._augment = augment
        return other

    def _collated(self, samples: list[Any], indices: npt.NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        if not isinstance(samples[0], tuple | list) or len(samples[0]) != 2:
            raise InputError(
                f"a sample must be the pair (input, label), got {type(samples[0]).__name__} from sample {indices[0]}."
            )
        try:
            inputs, targets = default_collate(samples)
        except (TypeError, RuntimeError) as error:
            raise InputError(
                f"the dataset's samples do not form a batch: {error}. Return tensors of one shape."
            ) from error
        if not isinstance(targets, Tensor) or targets.ndim != 1 or targets.is_floating_point():
            raise InputError(
                f"a label must be one whole number, got {samples[0][1]!r} from sample {indices[0]}."
            )
        targets = targets.to(torch.int64)
        wrong = (targets < 0) | (targets >= self._num_classes)
        if wrong.any():
            at = int(wrong.nonzero()[0])
            raise InputError(
                f"sample {int(indices[at])} has the label {int(targets[at])}; the model's outputs allow "
                f"0 to {self._num_classes - 1}."
            )
        return inputs.to(self._device), targets.to(self._device)


def _augmented_alike(augment: Augmentation, batch: Tensor, rng: np.random.Generator) -> Tensor:
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


def _alone(dataset: Dataset[Any], index: int, again: int) -> Any:
    """One sample with random numbers that follow from its own."""
    _seed([int(word) for word in np.random.SeedSequence((index, again)).generate_state(3)])
    return dataset[index]


def _alike(one: Any, other: Any) -> bool:
    """Whether two samples have equal inputs."""
    first, second = (torch.nan_to_num(default_collate([sample])[0]) for sample in (one, other))
    return torch.equal(first, second)


def _seed(seeds: Sequence[int]) -> None:
    random.seed(seeds[0])
    np.random.seed(seeds[1])
    torch.default_generator.manual_seed(seeds[2])


@contextmanager
def _global_generators(seeds: Sequence[int]) -> Iterator[None]:
    """Seed the generators of random, NumPy and torch's CPU inside; an accelerator's own belongs to dropout."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        _seed(seeds)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
