"""Some of a set's samples, as a set of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradlex.data._augment import Augmentation
from gradlex.data._samples import Samples


class Subset:
    """The samples of these numbers, numbered from 0; nothing is copied."""

    def __init__(self, samples: Samples, indices: npt.NDArray[np.intp]) -> None:
        self.samples, self.indices = samples, indices

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def channels_last(self) -> bool:
        """As the whole set has it."""
        return self.samples.channels_last

    @property
    def targets(self) -> Tensor | None:
        """The targets of these samples, where they lie in memory."""
        whole = self.samples.targets
        return None if whole is None else whole[torch.from_numpy(self.indices).to(whole.device)]

    def clean(self, indices: npt.NDArray[np.intp]) -> tuple[Any, Tensor]:
        """Inputs and targets as they are."""
        return self.samples.clean(self.indices[indices])

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Any, Tensor]:
        """Inputs and targets for one gradient step."""
        return self.samples.augmented(self.indices[indices], rng)

    def clean_batches(self, batches: Sequence[npt.NDArray[np.intp]]) -> Iterator[tuple[Any, Tensor]]:
        """The same, batch by batch."""
        return self.samples.clean_batches([self.indices[indices] for indices in batches])

    def augmented_batches(
        self, batches: Sequence[npt.NDArray[np.intp]], rngs: Sequence[np.random.Generator]
    ) -> Iterator[tuple[Any, Tensor]]:
        """The same, batch by batch."""
        return self.samples.augmented_batches([self.indices[indices] for indices in batches], rngs)

    def to(self, device: torch.device) -> Subset:
        """The same samples, given out on this device."""
        return Subset(self.samples.to(device), self.indices)

    def contiguous(self) -> Subset:
        """The same samples for a network that takes maps only as torch makes them."""
        return Subset(self.samples.contiguous(), self.indices)

    def with_augment(self, augment: Augmentation | None) -> Subset:
        """The same samples with another augmentation."""
        return Subset(self.samples.with_augment(augment), self.indices)

    def with_check(self, check: Callable[[Any, Tensor], None]) -> Subset:
        """The same samples with a check of every batch."""
        return Subset(self.samples.with_check(check), self.indices)
