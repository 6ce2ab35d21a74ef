"""Evaluate a finished run again, on its own test samples or on other data."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gradlex.data import ArraySamples, Normalization, is_folder, load
from gradlex.engine import Evaluation, Worker
from gradlex.errors import InputError
from gradlex.population import capture
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._device import find_device
from gradlex.runs._folder import RunFolder
from gradlex.runs._named import array_samples, build_model
from gradlex.runs._resume import stored_recipe
from gradlex.runs._tried import takes_channels_last
from gradlex.runs._weights import load_weights
from gradlex.tasks import Classification


@dataclass(frozen=True, kw_only=True)
class FinishedModel:
    """The final model of a run and test samples with the run's own normalisation."""

    recipe: Recipe
    model: nn.Module
    """In evaluation mode, on the processor."""
    test: ArraySamples
    """Normalised, on the device."""
    normalization: Normalization | None
    """What inputs are normalised by; None where the model takes them as they are."""
    device: torch.device


def evaluate(
    path: Path | str,
    *,
    dataset: str | None = None,
    device: str | None = None,
    data_dir: Path | None = None,
    ema: bool = False,
) -> Evaluation:
    """Accuracy and loss of the run's final model, or of its moving average, with the run's own normalisation."""
    finished = finished_model(path, dataset=dataset, device=device, data_dir=data_dir, ema=ema)
    recipe, test = finished.recipe, finished.test
    worker = Worker(finished.model, test, Classification(recipe.case_error), recipe, finished.device)
    return worker.evaluate(capture(worker.model), test)


def finished_model(
    path: Path | str,
    *,
    dataset: str | None = None,
    device: str | None = None,
    data_dir: Path | None = None,
    ema: bool = False,
) -> FinishedModel:
    """The run's final model, with the test samples of its own data or of another dataset that fits it.

    With `ema` the model has the moving average of the parents, which a run keeps only where it was asked to.
    """
    path = Path(path)
    folder = RunFolder(path)
    recipe, trained_on = stored_recipe(folder)
    if GIVEN in (recipe.model, recipe.dataset):
        raise InputError(
            f"{path} was trained from the library on objects of its own, which no file holds: "
            "load model.safetensors into your model and evaluate it there."
        )
    _refuse_incomplete(path, trained_on)
    if ema and recipe.ema is None:
        raise InputError(f"{path} kept no moving average: train with --ema 0.9 for one, or leave --ema out.")
    same = dataset is None or dataset == recipe.dataset
    asked = recipe if same else _other(recipe, str(dataset), trained_on["input_shape"])
    arrays = load(asked, data_dir)
    if arrays.x_test is None or arrays.y_test is None:
        raise InputError(f"{asked.dataset} has no test part.")
    if list(arrays.input_shape) != trained_on["input_shape"]:
        raise InputError(
            f"{asked.dataset} has samples of the shape {arrays.input_shape}, the run was trained on "
            f"{tuple(trained_on['input_shape'])}."
        )
    if arrays.num_classes != trained_on["num_classes"]:
        raise InputError(
            f"{asked.dataset} has {arrays.num_classes} classes, the run was trained on "
            f"{trained_on['num_classes']}."
        )
    names = trained_on["class_names"]
    if names is not None and arrays.class_names is not None and names != list(arrays.class_names):
        raise InputError(
            f"{asked.dataset} has the classes {', '.join(arrays.class_names)}, the run was trained on "
            f"{', '.join(names)}: they must be the same in the same order."
        )
    if dataset is None and arrays.fingerprint() != trained_on["fingerprint"]:
        raise InputError(
            f"{asked.dataset} has changed since the run was trained on it: bring the old data back, or name "
            "the data with --dataset to evaluate on it as it is."
        )
    model = build_model(recipe, arrays.input_shape, arrays.num_classes)
    load_weights(model, path / ("ema.safetensors" if ema else "model.safetensors"))
    scales = trained_on["normalization"]
    normalization = Normalization(mean=tuple(scales["mean"]), std=tuple(scales["std"]))
    found = find_device(device)
    test = array_samples(arrays.x_test, arrays.y_test, normalization, found)
    if not takes_channels_last(model.eval().to(found), test.clean(np.arange(1))[0]):
        test = test.contiguous()
    return FinishedModel(
        recipe=recipe, model=model.cpu(), test=test, normalization=normalization, device=found
    )


def _refuse_incomplete(path: Path, trained_on: dict[str, Any]) -> None:
    if not (path / "result.json").exists():
        raise InputError(f"{path} is not finished: go on with gradlex resume {shlex.quote(str(path))} first.")
    normalization = trained_on.get("normalization")
    scales = (
        [normalization.get(key) for key in ("mean", "std")] if isinstance(normalization, dict) else [None]
    )
    fits = (
        _numbers(trained_on.get("input_shape"))
        and isinstance(trained_on.get("num_classes"), int)
        and all(_numbers(scale) for scale in scales)
        and "fingerprint" in trained_on
        and _names(trained_on.get("class_names"))
    )
    if not fits:
        raise InputError(f"{path / 'recipe.json'} does not describe the run's data as gradlex does.")


def _numbers(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(v, int | float) for v in given)


def _names(given: Any) -> bool:
    return given is None or (isinstance(given, list) and all(isinstance(v, str) for v in given))


def _other(recipe: Recipe, dataset: str, input_shape: list[int]) -> Recipe:
    """The recipe on other data: what it says of its own data's parts and size does not apply."""
    size = input_shape[-1] if len(input_shape) == 3 and is_folder(dataset) else None
    return recipe.replace(dataset=dataset, train_size=None, test_fraction=None, image_size=size)
