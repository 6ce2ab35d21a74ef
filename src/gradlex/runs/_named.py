"""A problem from a recipe alone: the dataset and the model by their names, as the command has them."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from gradlex.data import Arrays, ArraySamples, Normalization, dataset_info, is_folder, load, parse_augment
from gradlex.engine import seeded
from gradlex.errors import InputError, unknown_name
from gradlex.models import MODELS, build
from gradlex.randomness import torch_seed
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._problem import Problem
from gradlex.runs._resolve import Facts, resolve, resolve_method
from gradlex.runs._tried import check_width, try_out
from gradlex.runs._weights import load_weights
from gradlex.tasks import Classification


def named_problem(
    recipe: Recipe,
    *,
    device: torch.device,
    data_dir: Path | None = None,
    fresh: bool = True,
    arrays: Arrays | None = None,
) -> Problem:
    """Load the data, build the model with its initial weights, resolve the recipe; writes nothing but downloads.

    `arrays` is the recipe's data where it has been loaded already. `fresh` is False for a run that goes on from a
    checkpoint: it needs no `init_from` any more.
    """
    if GIVEN in (recipe.dataset, recipe.model, recipe.augment):
        raise InputError(
            "this run was started from the library with objects of its own, which no file holds: "
            "call gradlex.train with the same model and data."
        )
    if ":" not in recipe.model and recipe.model not in MODELS:
        raise unknown_name("model", recipe.model, MODELS)
    resolve_method(recipe, device)
    if arrays is None:
        arrays = load(recipe, data_dir)
    normalization = Normalization.of(arrays.x_train)
    model = build_model(recipe, arrays.input_shape, arrays.num_classes)
    plain = array_samples(arrays.x_train, arrays.y_train, normalization, device)
    with seeded(torch_seed(recipe.seed, "initialisation", index=1), device):
        tried = try_out(model.to(device), plain, device)
    check_width(tried.num_classes, arrays.num_classes)
    recipe = resolved_for(recipe, arrays, device, multiply_adds=tried.multiply_adds)
    augment = parse_augment(recipe.augment or "none")
    if augment is not None and len(arrays.input_shape) != 3:
        raise InputError(
            f"augment {recipe.augment!r} needs pictures; this data has plain features: use none."
        )
    if recipe.init_from is not None and fresh:
        load_weights(model, Path(recipe.init_from))
    test = (
        None
        if arrays.x_test is None or arrays.y_test is None
        else array_samples(arrays.x_test, arrays.y_test, normalization, device)
    )
    if not tried.channels_last:
        plain, test = plain.contiguous(), None if test is None else test.contiguous()
    return Problem(
        recipe=recipe,
        model=model,
        train=plain.with_augment(augment),
        test=test,
        task=Classification(recipe.case_error),
        data=_described(arrays, normalization),
        normalization=normalization,
        multiply_adds=tried.multiply_adds,
        device=device,
    )


def resolved_for(
    recipe: Recipe, arrays: Arrays, device: torch.device, *, multiply_adds: float = 0.0
) -> Recipe:
    """The recipe with nothing left open, for its data; the multiply-adds decide only threads that are auto."""
    size = arrays.input_shape[-1] if is_folder(recipe.dataset) else None
    return resolve(
        recipe.replace(test_fraction=arrays.test_fraction, image_size=size),
        Facts(
            dataset=dataset_info(recipe.dataset),
            num_samples=len(arrays.y_train),
            gains_from_bfloat16=recipe.model not in MODELS or MODELS[recipe.model].gains_from_bfloat16,
            multiply_adds=multiply_adds,
            device=device,
        ),
    )


def build_model(recipe: Recipe, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The recipe's model for samples of this shape, with its initial weights."""
    pictures = len(shape) == 3
    info = MODELS.get(recipe.model)
    if info is not None and info.smallest_picture and not pictures:
        raise InputError(f"{recipe.model} needs pictures; this data has {shape[0]} plain features: use mlp.")
    flat = info is not None and not info.smallest_picture
    with seeded(torch_seed(recipe.seed, "initialisation"), torch.device("cpu")):
        try:
            return build(
                recipe.model,
                num_classes=num_classes,
                in_channels=math.prod(shape) if flat else shape[0],
                image_size=min(shape[1:]) if pictures else None,
                width=recipe.width,
            )
        except (MemoryError, RuntimeError, TypeError, OverflowError) as error:  # torch's words for too large
            if info is None:  # a model of the user's, which says itself what is wrong
                raise
            raise InputError(
                f"{recipe.model} of width {recipe.width:g} is too large to be made here: choose a smaller width."
            ) from error


def array_samples(
    x: npt.NDArray[Any],
    y: npt.NDArray[np.int64],
    normalization: Normalization,
    device: torch.device,
) -> ArraySamples:
    """Samples of a dataset's arrays, pictures as networks see them: (N, channels, height, width)."""
    inputs = torch.from_numpy(x)
    return ArraySamples(
        inputs.permute(0, 3, 1, 2) if inputs.ndim == 4 else inputs,
        torch.from_numpy(y),
        normalization=normalization,
    ).to(device)


def _described(arrays: Arrays, normalization: Normalization) -> dict[str, Any]:
    return {
        "fingerprint": arrays.fingerprint(),
        "test_fingerprint": arrays.test_fingerprint(),
        "train_samples": len(arrays.y_train),
        "test_samples": 0 if arrays.y_test is None else len(arrays.y_test),
        "input_shape": list(arrays.input_shape),
        "num_classes": arrays.num_classes,
        "class_names": arrays.class_names,
        "normalization": asdict(normalization),
    }
