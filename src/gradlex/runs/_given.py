"""A problem from objects: the library's way, with any nn.Module and arrays, tensors or a torch Dataset."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import nn

from gradlex.data import OWN, Augmentation, parse_augment
from gradlex.errors import InputError
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._given_samples import Data, SampleMaker, as_tensor
from gradlex.runs._problem import Problem
from gradlex.runs._resolve import Facts, resolve
from gradlex.runs._weights import load_weights
from gradlex.tasks import Classification


def given_recipe(recipe: Recipe, augment: Augmentation | None) -> Recipe:
    """The recipe with what is passed in as an object marked as given."""
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe must be a gradlex.Recipe, got {type(recipe).__name__}.")
    for name in ("model", "dataset"):
        if getattr(recipe, name) not in (GIVEN, getattr(Recipe(), name)):
            raise InputError(
                f"{name} {getattr(recipe, name)!r} in the recipe is for the command: here what is passed in is "
                "trained, so leave it out."
            )
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
    model = _copied(model).to(device)
    make = SampleMaker(model, recipe, device)
    train, normalization = make.samples(data, clean=clean, augment=augment)
    tried = make.tried
    assert tried is not None
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
            gains_from_bfloat16=tried.bfloat16 and all(p.dtype == torch.float32 for p in model.parameters()),
            multiply_adds=tried.multiply_adds,
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
            "num_classes": tried.num_classes,
            "normalization": None if normalization is None else asdict(normalization),
        },
        normalization=normalization,
        multiply_adds=tried.multiply_adds,
        device=device,
    )


def _copied(model: nn.Module) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model must be an nn.Module, got {model!r:.80}: gradlex.models.build makes one by its name."
        )
    try:
        own = copy.deepcopy(model)
    except Exception as error:  # torch's words for a tensor that is computed, or a user's for anything
        raise InputError(f"the model cannot be copied: {type(error).__name__}: {error}") from error
    if not all(parameter.is_leaf for parameter in own.parameters()):
        raise InputError(
            f"a copy of the model ({type(model).__name__}) has parameters that cannot be trained: give it before "
            "torch.jit.script or whatever made it so, or use Recipe(compile=True)."
        )
    return own


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


def _fingerprint(*parts: Data | None) -> str | None:
    """A SHA-256 over the bytes of arrays; None where a Dataset is among them."""
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
        elif isinstance(part, tuple | list):
            for given in part:
                tensor = as_tensor(given, "data").detach().cpu().contiguous()
                digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
                digest.update(tensor.flatten().view(torch.uint8).numpy().data)
        else:
            return None
    return digest.hexdigest()
