"""Samples of a map-style torch Dataset, made one by one when they are asked for."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from gradlex.data._augment import Augmentation
from gradlex.data._samples import augmented_alike
from gradlex.errors import InputError
from gradlex.randomness import callers_generators


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
        self.channels_last = True
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
        return self._varies(self._clean, others=(1, 2, 3, 4))

    @property
    def repeats(self) -> bool:
        """Whether the training view's first samples are the same again with the same random numbers."""
        return not self._varies(self._training, others=(0, 0))

    def _varies(self, view: Dataset[Any], others: Sequence[int]) -> bool:
        def shown(i: int, again: int) -> Tensor:
            inputs, _ = self._collated([_alone(view, i, again)], np.array([i]))
            return torch.nan_to_num(inputs)

        with _global_generators((0, 0, 0)):
            return any(
                not torch.equal(shown(i, 0), shown(i, other))
                for i in range(min(4, len(self)))
                for other in others
            )

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """The dataset's own transformed samples, then the batch augmentation."""
        with _global_generators(rng.integers(0, 2**32, 3).tolist()):
            inputs, targets = self._collated([self._training[int(i)] for i in indices], indices)
        return (augmented_alike(self._augment, inputs, rng) if self._augment else inputs), targets

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

    def contiguous(self) -> DatasetSamples:
        """The same samples for a network that takes maps only as torch makes them (`view`)."""
        other = copy.copy(self)
        other.channels_last = False
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
        if not isinstance(inputs, Tensor):
            raise InputError(
                f"a sample's input must be one tensor or array, got {type(samples[0][0]).__name__} from sample "
                f"{indices[0]}: put several into one, and take it apart in the model."
            )
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


def _alone(dataset: Dataset[Any], index: int, again: int) -> Any:
    """One sample with random numbers that follow from its own."""
    _seed([int(word) for word in np.random.SeedSequence((index, again)).generate_state(3)])
    return dataset[index]


def _seed(seeds: Sequence[int]) -> None:
    random.seed(seeds[0])
    np.random.seed(seeds[1])
    torch.default_generator.manual_seed(seeds[2])


@contextmanager
def _global_generators(seeds: Sequence[int]) -> Iterator[None]:
    """Seed the generators of random, NumPy and torch's CPU inside; an accelerator's own belongs to dropout."""
    with callers_generators(), torch.random.fork_rng(devices=[]):
        _seed(seeds)
        yield
