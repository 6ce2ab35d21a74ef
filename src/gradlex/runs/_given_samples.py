"""Samples from objects: arrays and tensors as a pair, or a torch Dataset, checked and fitted to the model."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from gradlex.data import ArraySamples, Augmentation, DatasetSamples, Normalization, Samples, check_samples
from gradlex.engine import seeded
from gradlex.errors import InputError
from gradlex.randomness import torch_seed
from gradlex.recipe import Recipe
from gradlex.runs._tried import Tried, check_width, try_out

Data: TypeAlias = "tuple[Tensor | npt.NDArray[Any], Tensor | npt.NDArray[Any]] | Dataset[Any]"
"""(x, y) as tensors or NumPy arrays, or a map-style torch Dataset of (input, label)."""


class SampleMaker:
    """Turns what was passed in into samples that fit the model."""

    def __init__(self, model: nn.Module, recipe: Recipe, device: torch.device) -> None:
        self._model, self._device = model, device
        self._seed = torch_seed(recipe.seed, "initialisation", index=1)
        self._bytes: bool | None = None
        self.tried: Tried | None = None
        """What the training samples showed of the model."""

    def samples(
        self,
        data: Data,
        *,
        clean: Data | None = None,
        augment: Augmentation | None = None,
        normalization: Normalization | None = None,
    ) -> tuple[Samples, Normalization | None]:
        """The samples, and what they are normalised by where they are bytes."""
        if isinstance(data, tuple | list):
            if clean is not None:
                raise InputError(
                    "a clean view belongs to a Dataset with transforms; arrays are clean already."
                )
            return self._arrays(data, augment, normalization)
        if (
            isinstance(data, IterableDataset)
            or not hasattr(data, "__getitem__")
            or not hasattr(data, "__len__")
        ):
            raise InputError(
                "an iterable dataset has no numbered samples, so it cannot be split into disjoint subsets or asked "
                f"for single cases: give (x, y) or a map-style Dataset, got {type(data).__name__}."
            )
        if isinstance(clean, tuple | list):
            raise InputError("the clean view of a Dataset must be a Dataset of the same samples, got arrays.")
        if len(data) == 0:
            raise InputError(f"the dataset {type(data).__name__} is empty.")
        self._refuse_mixed(bytes_given=False, what=f"a {type(data).__name__}")
        given = DatasetSamples(data, clean_view=clean, num_classes=2**31).to(self._device)
        tried = self._try(given)
        if given.clean_varies:
            warnings.warn(
                f"{type(data if clean is None else clean).__name__} transforms its samples at random, so selection and "
                "evaluation would see augmented ones: give the same samples without random transforms as clean=...",
                stacklevel=4,
            )
        if not given.repeats:
            warnings.warn(
                f"{type(data).__name__} draws from a random generator of its own, so the run cannot be made again or "
                "go on as it would have: draw from random, numpy.random or torch, which are seeded for every batch.",
                stacklevel=4,
            )
        samples = DatasetSamples(data, clean_view=clean, augment=augment, num_classes=tried.num_classes)
        samples = samples.to(self._device)
        return samples if tried.channels_last else samples.contiguous(), None

    def _arrays(
        self, data: Any, augment: Augmentation | None, normalization: Normalization | None
    ) -> tuple[Samples, Normalization | None]:
        if len(data) != 2:
            raise InputError(f"data given as arrays must be the pair (x, y), got {len(data)} of them.")
        x, y = as_tensor(data[0], "x"), as_tensor(data[1], "y")
        check_samples(len(x), y.cpu().numpy(), what="the data")
        if x.is_floating_point() and not torch.isfinite(x).all():
            raise InputError("the data holds NaN or infinity: clean it first.")
        self._refuse_mixed(bytes_given=x.dtype == torch.uint8, what=f"{x.dtype} arrays")
        if x.dtype == torch.uint8 and normalization is None:
            if x.ndim not in (2, 4):
                raise InputError(
                    f"bytes must be (N, channels, height, width) or (N, features), got {tuple(x.shape)}."
                )
            normalization = Normalization.of(np.moveaxis(x.cpu().numpy(), 1, -1))
        samples = ArraySamples(
            x,
            y.to(torch.int64),
            normalization=normalization if x.dtype == torch.uint8 else None,
            augment=augment,
        ).to(self._device)
        tried = self._try(samples)
        check_width(tried.num_classes, int(y.max()) + 1)
        return samples if tried.channels_last else samples.contiguous(), normalization

    def _try(self, samples: Samples) -> Tried:
        with seeded(self._seed, self._device):  # a lazy layer takes its initial weights here
            tried = try_out(self._model, samples, self._device)
        self.tried = self.tried or tried
        return tried

    def _refuse_mixed(self, *, bytes_given: bool, what: str) -> None:
        """Arrays of bytes are normalised and nothing else is, so training and test samples must be alike in it."""
        if self._bytes not in (None, bytes_given):
            trained = "torch.uint8 arrays" if self._bytes else "not"
            raise InputError(
                f"the test samples are {what}, the training samples are {trained}: arrays of torch.uint8 are "
                "normalised and other samples are not, so give both alike."
            )
        self._bytes = bytes_given


def as_tensor(given: Any, name: str) -> Tensor:
    """An array or tensor as a tensor; copied only where torch could not share it (reversed, read-only)."""
    try:
        shared = (
            given.detach()
            if isinstance(given, Tensor)
            else torch.from_numpy(np.require(given, requirements=["C", "W"]))
        )
    except (TypeError, ValueError) as error:  # torch's and NumPy's words for what holds no numbers
        raise InputError(f"{name} cannot be made a tensor: {error}") from error
    if shared.ndim == 0:
        raise InputError(f"{name} must hold samples along its first axis, got a single number.")
    return shared
