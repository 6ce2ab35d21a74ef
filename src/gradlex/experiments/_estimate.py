"""How long runs will take on this machine: a guess from one short batch of each network, made only to be shown."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from gradlex.data import dataset_info
from gradlex.errors import InputError
from gradlex.experiments._grid import Cell
from gradlex.experiments._prepare import Job
from gradlex.models import MODELS
from gradlex.population import channels_last
from gradlex.recipe import Recipe
from gradlex.runs import build_model, native_bfloat16

_BATCH = 8


def estimate(cells: Sequence[Cell], jobs: Sequence[Job | None], device: torch.device) -> list[float | None]:
    """Seconds that are left of each run, in the cells' order; None where they cannot be guessed.

    A job is None where the data is not here.
    """
    speeds: dict[tuple[object, ...], tuple[float, float] | None] = {}
    found = []
    for cell, job in zip(cells, jobs, strict=True):
        recipe = cell.recipe
        info = dataset_info(recipe.dataset)
        shape = job.input_shape if job else (1, 8, 8) if info.name == "digits" else (3, 32, 32)
        samples = job.samples if job else recipe.train_size or info.train_samples
        key = (recipe.model, recipe.width, recipe.precision, shape)
        if key not in speeds:
            speeds[key] = _seconds_a_sample(recipe, shape, device)
        speed = speeds[key]
        left = recipe.require("generations") - (job.generations_done if job else 0)
        found.append(None if speed is None or samples is None else left * _seconds(recipe, samples, *speed))
    return found


def _seconds(recipe: Recipe, samples: int, training: float, asking: float) -> float:
    """A generation trains on every sample once; tournament and expected ask about many cases, lexicase few."""
    cases = 0
    if recipe.promotion == "expected":
        cases = min(recipe.promotion_cases or samples, samples)
    elif recipe.selection == "tournament":
        cases = samples
    population = recipe.population or 1
    return samples * training + cases * population * asking


def _seconds_a_sample(
    recipe: Recipe, shape: tuple[int, ...], device: torch.device
) -> tuple[float, float] | None:
    """Of training and of asking; None for a network that cannot be made for what is known of the data."""
    try:
        model = build_model(recipe, shape, num_classes=10).to(device)
    except InputError:  # the run itself says why
        return None
    info = MODELS.get(recipe.model)
    half = native_bfloat16(device) and (info is None or info.gains_from_bfloat16)
    half = recipe.precision == "bfloat16" or (recipe.precision == "auto" and half)
    inputs = torch.zeros(_BATCH, *shape, device=device)
    if len(shape) == 3:  # pictures
        model = channels_last(model)
        inputs = inputs.to(memory_format=torch.channels_last)
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if recipe.threads == "auto" else recipe.threads)
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            return _timed(model, inputs, train=True), _timed(model.eval(), inputs, train=False)
    finally:
        torch.set_num_threads(threads)


def _timed(model: nn.Module, x: torch.Tensor, *, train: bool) -> float:
    """Seconds a sample of the faster of two batches; the first warms up."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        with torch.set_grad_enabled(train):
            outputs = model(x)
            if train:
                loss = functional.cross_entropy(outputs, outputs.new_zeros(len(x), dtype=torch.long))
                torch.autograd.backward(loss)
            outputs.sum().item()  # waits for an accelerator
        times.append((time.perf_counter() - start) / len(x))
    return min(times)
