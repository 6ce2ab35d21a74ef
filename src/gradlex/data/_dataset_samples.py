"""Samples of a map-style torch Dataset, loaded on demand."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from gradlex.data._arrays import escaped
from gradlex.data._augment import Augmentation, augmented_alike, global_generators, seed_generators
from gradlex.data._inputs import Inputs, describe, leaves, map_inputs, named_leaves, numeric_targets
from gradlex.data._loaders import Loaders, Request
from gradlex.data._transfer import sent
from gradlex.errors import InputError

Collate: TypeAlias = Callable[[list[Any]], Any]
"""A list of samples -> the pair (inputs, targets), as a DataLoader's collate_fn."""


class DatasetSamples:
    """A map-style torch Dataset, with a second, clean view of the same samples where it transforms them.

    A transform draws from the global generators of random, NumPy and torch. They are seeded for each batch from the
    derived stream, in the clean view for each sample by its number, so that a case is always the same, and put back
    afterwards. `collate` makes a batch of samples; `clean_collate` those of the clean view, if they need another.
    `loader_workers` are processes that read batches ahead.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from torch.utils.data import Dataset
        >>> from gradlex.data import DatasetSamples
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 5
        ...     def __getitem__(self, index):
        ...         return torch.tensor([float(index)]), index**2
        >>> inputs, targets = DatasetSamples(Squares()).clean(np.array([2, 4]))
        >>> targets
        tensor([ 4, 16])
    """

    targets = None
    """A Dataset's targets are known only when its samples are drawn."""

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        clean_view: Dataset[Any] | None = None,
        collate: Collate = default_collate,
        clean_collate: Collate | None = None,
        augment: Augmentation | None = None,
        loader_workers: int = 0,
    ) -> None:
        self._training, self._clean = dataset, clean_view if clean_view is not None else dataset
        self._collate, self._clean_collate = collate, clean_collate or collate
        self._augment = augment
        self._read = _Views(self._training, self._collate, self._clean, self._clean_collate)
        self._loaders = Loaders(self._read, loader_workers)
        self._check: Callable[[Inputs, Tensor], None] | None = None
        self._device: torch.device | None = None
        self.channels_last = True
        if len(self._clean) != len(self._training):  # type: ignore[arg-type]  # map-style: has a length
            raise InputError(
                f"the clean view has {len(self._clean)} samples and the data {len(self._training)}: "  # type: ignore[arg-type]
                "they must be two views of the same samples in the same order."
            )

    def __len__(self) -> int:
        return len(self._clean)  # type: ignore[arg-type]  # map-style: has a length

    def clean(self, indices: npt.NDArray[np.intp]) -> tuple[Any, Tensor]:
        """The clean view's samples."""
        return self._given_out(self._read(Request(indices, None)), indices)

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Any, Tensor]:
        """The dataset's own transformed samples, then the batch augmentation."""
        batch = self._read(Request(indices, _seeds(rng)))
        return self._augmented(self._given_out(batch, indices), rng)

    def clean_batches(self, batches: Sequence[npt.NDArray[np.intp]]) -> Iterator[tuple[Any, Tensor]]:
        """The same, batch by batch, read ahead."""
        requests = [Request(indices, None) for indices in batches]
        for indices, batch in zip(batches, self._loaders.batches(requests), strict=True):
            yield self._given_out(batch, indices)

    def augmented_batches(
        self, batches: Sequence[npt.NDArray[np.intp]], rngs: Sequence[np.random.Generator]
    ) -> Iterator[tuple[Any, Tensor]]:
        """The same, batch by batch, read ahead: what transforms draw from is known before the first is read."""
        requests = [Request(indices, _seeds(rng)) for indices, rng in zip(batches, rngs, strict=True)]
        read = self._loaders.batches(requests)
        for indices, rng, batch in zip(batches, rngs, read, strict=True):
            yield self._augmented(self._given_out(batch, indices), rng)

    def _augmented(self, batch: tuple[Any, Tensor], rng: np.random.Generator) -> tuple[Any, Tensor]:
        return augmented_alike(self._augment, *batch, rng) if self._augment else batch

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

    def with_check(self, check: Callable[[Inputs, Tensor], None]) -> DatasetSamples:
        """The same samples, with every batch checked on the host before it is moved to the device."""
        other = copy.copy(self)
        other._check = check
        return other

    def contiguous(self) -> DatasetSamples:
        """The same samples for a network that takes images only as torch makes them (`view`)."""
        other = copy.copy(self)
        other.channels_last = False
        return other

    @property
    def clean_varies(self) -> bool:
        """Whether the clean view draws random numbers: some of its first samples are other ones with other numbers."""
        return self._varies(self._clean, self._clean_collate, others=(1, 2, 3, 4))

    @property
    def repeats(self) -> bool:
        """Whether the training view's first samples are the same again with the same random numbers."""
        return not self._varies(self._training, self._collate, others=(0, 0))

    def _varies(self, view: Dataset[Any], collate: Collate, others: Sequence[int]) -> bool:
        indices = np.arange(min(4, len(self)))

        def batch(again: int) -> list[Tensor]:
            inputs, targets = _batch([_alone(view, int(i), again) for i in indices], indices, collate)
            return [*leaves(inputs), targets]

        with global_generators((0, 0, 0)):
            first = batch(0)
            return any(not _same(first, batch(other)) for other in others)

    def _given_out(self, batch: tuple[Inputs, Tensor], indices: npt.NDArray[np.intp]) -> tuple[Any, Tensor]:
        inputs, targets = batch
        if self._check is not None:
            try:
                self._check(inputs, targets)
            except InputError as error:
                numbers = ", ".join(map(str, indices[:8])) + (", ..." if len(indices) > 8 else "")
                raise InputError(f"in a batch of the samples {numbers}: {error}") from error
        return map_inputs(lambda leaf: sent(leaf, self._device), inputs), sent(targets, self._device)


def _seeds(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(rng.integers(0, 2**32, 3).tolist())


@dataclass(frozen=True)
class _Views:
    """Reads batches on the host, in whichever process."""

    training: Dataset[Any]
    collate: Collate
    clean: Dataset[Any]
    clean_collate: Collate

    def __call__(self, request: Request) -> tuple[Any, Tensor]:
        indices, seeds = request
        with global_generators(seeds or (0, 0, 0)):
            if seeds is None:
                samples = [_alone(self.clean, int(i), 0) for i in indices]
                return _batch(samples, indices, self.clean_collate)
            return _batch([self.training[int(i)] for i in indices], indices, self.collate)


def _batch(samples: list[Any], indices: npt.NDArray[np.intp], collate: Collate) -> tuple[Any, Tensor]:
    """One batch on the host, and every way in which it can be none."""
    first = f"sample {indices[0]}"
    if collate is default_collate and (not isinstance(samples[0], tuple | list) or len(samples[0]) != 2):
        kind = type(samples[0]).__name__
        found = f"a {kind} of {len(samples[0])}" if isinstance(samples[0], tuple | list) else kind
        raise InputError(
            f"a sample must be the pair (input, target), got {found} from {first}: several inputs go into one tuple or "
            "dict, ((x1, x2), y); or give a DataLoader whose collate_fn returns (inputs, targets)."
        )
    try:
        batch = collate(samples)
    except Exception as error:  # torch's kinds, and whatever a collate function may raise
        raise InputError(
            f"the dataset's samples do not form a batch: {type(error).__name__}: {escaped(error)}. Return tensors "
            "of one shape, or give a DataLoader whose collate_fn pads them."
        ) from error
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise InputError(f"collate must return the pair (inputs, targets), got {type(batch).__name__}.")
    inputs, targets = batch
    if isinstance(inputs, Mapping) and not isinstance(inputs, dict):
        inputs = dict(inputs)  # such as the batches of Hugging Face's tokenizers
    if not isinstance(targets, Tensor):
        raise InputError(
            f"a target must be a number, or a tensor or array of them, got {samples[0][1]!r:.80} from {first}."
            if collate is default_collate
            else f"collate must return the targets as one tensor, got {type(targets).__name__}."
        )
    named = named_leaves(inputs, "inputs")
    for name, leaf in named:
        if not isinstance(leaf, Tensor):
            raise InputError(
                f"a sample's input must be a tensor or array, or a tuple or dict of them, but in the batch {name} is "
                f"{type(leaf).__name__}."
            )
    if not named or any(leaf.ndim == 0 or len(leaf) != len(samples) for _, leaf in (*named, ("", targets))):
        raise InputError(
            f"a batch of {len(samples)} samples must hold {len(samples)} of each input and target along the first "
            f"axis, got {describe(inputs, 'inputs')} and targets {describe(targets)}."
        )
    return inputs, numeric_targets(targets, "the targets")


def _same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(torch.nan_to_num(left), torch.nan_to_num(right))
        for left, right in zip(one, other, strict=True)
    )


def _alone(dataset: Dataset[Any], index: int, again: int) -> Any:
    """One sample with random numbers that follow from its own."""
    seed_generators([int(word) for word in np.random.SeedSequence((index, again)).generate_state(3)])
    return dataset[index]
