"""A problem from objects: the library's way, with any nn.Module and arrays, tensors or a torch Dataset."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from gradlex.data import (
    OWN,
    ArraySamples,
    Augmentation,
    DatasetSamples,
    Normalization,
    Samples,
    check_samples,
    parse_augment,
)
from gradlex.engine import torch_generator
from gradlex.errors import InputError
from gradlex.randomness import torch_seed
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._problem import Problem, check_width, try_out
from gradlex.runs._resolve import Facts, resolve
from gradlex.runs._weights import load_weights
from gradlex.tasks import Classification

Data: TypeAlias = "tuple[Tensor | npt.NDArray[Any], Tensor | npt.NDArray[Any]] | Dataset[Any]"
"""(x, y) as tensors or NumPy arrays, or a map-style torch Dataset of (input, label)."""


def given_recipe(recipe: Recipe, augment: Augmentation | None) -> Recipe:
    """The recipe with what is passed in as an object marked as given."""
    if augment is not None and recipe.augment is not None:
        raise InputError(f"augment is given twice: as a callable and as {recipe.augment!r} in the recipe.")
    return recipe.replace(dataset=GIVEN, model=GIVEN, augment=recipe.augment if augment is None else GIVEN)


def given_problem(
    model: nn.Module,
    data: Data,
    recipe: Recipe,
    *,
    clean: Data | None,
    test: Data | None,
    augment: Augmentation | None,
    device: torch.device,
    workers: int | None,
    fresh: bool = True,
) -> Problem:
    """Check and combine what was passed in; the caller's model stays as it is, a copy is trained.

    `recipe` is one that `given_recipe` has marked.
    """
    _refuse_what_names_are_for(recipe)
    if augment is None and recipe.augment not in (None, GIVEN):
        augment = parse_augment(recipe.augment or "none")
    model = copy.deepcopy(model).to(device)
    make = _Maker(model, recipe, device)
    train, normalization = make.samples(data, clean=clean, augment=augment)
    if recipe.augment not in (None, "none", GIVEN) and train.clean(np.arange(1))[0].ndim != 4:
        raise InputError(f"augment {recipe.augment!r} needs pictures (N, channels, height, width): use none.")
    tested = None if test is None else make.samples(test, normalization=normalization)[0]
    if recipe.init_from is not None and fresh:
        load_weights(model, Path(recipe.init_from))
    recipe = resolve(
        recipe,
        Facts(
            dataset=OWN,
            num_samples=len(train),
            gains_from_bfloat16=all(p.dtype == torch.float32 for p in model.parameters()),
            multiply_adds=make.multiply_adds,
            device=device,
            workers=workers,
        ),
    )
    return Problem(
        recipe=recipe,
        model=model,
        train=train,
        test=tested,
        task=Classification(recipe.case_error),
        data={
            "fingerprint": _fingerprint(data, test),
            "train_samples": len(train),
            "test_samples": 0 if tested is None else len(tested),
            "num_classes": make.num_classes,
            "normalization": None if normalization is None else asdict(normalization),
        },
        normalization=normalization,
        multiply_adds=make.multiply_adds,
        device=device,
    )


def _refuse_what_names_are_for(recipe: Recipe) -> None:
    """A part, share, size or width that nothing here would follow must not stand in the stored recipe."""
    for name in ("train_size", "test_fraction", "image_size"):
        if getattr(recipe, name) is not None:
            raise InputError(
                f"{name} belongs to data by name, got {getattr(recipe, name)}: pass the samples that are meant."
            )
    if recipe.width != 1.0:
        raise InputError(
            f"width belongs to a model by name, got {recipe.width}: pass the model that is meant."
        )


class _Maker:
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
        self._fit(DatasetSamples(data, clean_view=clean, num_classes=2**31).to(self._device))
        samples = DatasetSamples(data, clean_view=clean, augment=augment, num_classes=self.num_classes)
        return samples.to(self._device), None

    def _arrays(
        self, data: Any, augment: Augmentation | None, normalization: Normalization | None
    ) -> tuple[Samples, Normalization | None]:
        if len(data) != 2:
            raise InputError(f"data given as arrays must be the pair (x, y), got {len(data)} of them.")
        x, y = _tensor(data[0], "x"), _tensor(data[1], "y")
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


def _tensor(given: Any, name: str) -> Tensor:
    """An array or tensor as a tensor; copied only where torch could not share it (reversed, read-only)."""
    try:
        shared = (
            given
            if isinstance(given, Tensor)
            else torch.from_numpy(np.require(given, requirements=["C", "W"]))
        )
    except (TypeError, ValueError) as error:  # torch's and NumPy's words for what holds no numbers
        raise InputError(f"{name} cannot be made a tensor: {error}") from error
    if shared.ndim == 0:
        raise InputError(f"{name} must hold samples along its first axis, got a single number.")
    return shared


def _fingerprint(*parts: Data | None) -> str | None:
    """A SHA-256 over the bytes of arrays; None where a Dataset is among them."""
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
        elif isinstance(part, tuple | list):
            for given in part:
                tensor = _tensor(given, "data").detach().cpu().contiguous()
                digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
                digest.update(tensor.flatten().view(torch.uint8).numpy().data)
        else:
            return None
    return digest.hexdigest()
