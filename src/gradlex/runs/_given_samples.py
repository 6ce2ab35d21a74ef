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
from gradlex.engine import torch_generator
from gradlex.errors import InputError
from gradlex.randomness import torch_seed
from gradlex.recipe import Recipe
from gradlex.runs._problem import check_width, try_out

Data: TypeAlias = "tuple[Tensor | npt.NDArray[Any], Tensor | npt.NDArray[Any]] | Dataset[Any]"
"""(x, y) as tensors or NumPy arrays, or a map-style torch Dataset of (input, label)."""


class SampleMaker:
    """Turns what was passed in into samples that fit the model."""

    def __init__(self, model: nn.Module, recipe: Recipe, device: torch.device) -> None:
        self._model, self._device = model, device
        self._seed = torch_seed(recipe.seed, "initialisation", index=1)
        self._bytes: bool | None = None
        self.num_classes, self.multiply_adds = 0, 0.0

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
        given = DatasetSamples(data, clean_view=clean, num_classes=2**31).to(self._device)
        self._fit(given)
        if given.clean_varies:
            warnings.warn(
                f"{type(data if clean is None else clean).__name__} transforms its samples at random, so selection and "
                "evaluation would see augmented ones: give the same samples without random transforms as clean=...",
                stacklevel=4,
            )
        samples = DatasetSamples(data, clean_view=clean, augment=augment, num_classes=self.num_classes)
        return samples.to(self._device), None

    def _arrays(
        self, data: Any, augment: Augmentation | None, normalization: Normalization | None
    ) -> tuple[Samples, Normalization | None]:
        if len(data) != 2:
            raise InputError(f"data given as arrays must be the pair (x, y), got {len(data)} of them.")
        x, y = as_tensor(data[0], "x"), as_tensor(data[1], "y")
        check_samples(len(x), y.cpu().numpy(), what="the data")
        if x.is_floating_point() and not torch.isfinite(x).all():
            raise InputError("the data holds NaN or infinity: clean it first.")
        if self._bytes not in (None, x.dtype == torch.uint8):
            raise InputError(
                f"the test samples are {x.dtype}, the training samples are {'not ' if x.dtype == torch.uint8 else ''}"
                "torch.uint8: bytes are normalised and other types are not, so give both alike."
            )
        self._bytes = x.dtype == torch.uint8
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
        self._fit(samples)
        check_width(self.num_classes, int(y.max()) + 1)
        return samples, normalization

    def _fit(self, samples: Samples) -> None:
        with torch_generator(self._seed, self._device):  # a lazy layer takes its initial weights here
            self.num_classes, self.multiply_adds = try_out(self._model, samples)


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
