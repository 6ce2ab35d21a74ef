"""How long runs will take on this machine: a guess from one short batch of each network, made only to be shown."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from gradlex.experiments._grid import Cell, known_as
from gradlex.models import MODELS, build
from gradlex.recipe import Recipe
from gradlex.runs import native_bfloat16

_BATCH = 16


def estimate(cells: Sequence[Cell], device: torch.device) -> list[float | None]:
    """Seconds a run, in the cells' order; None where nothing is known of the data's size or the network."""
    speeds: dict[tuple[object, ...], tuple[float, float] | None] = {}
    found = []
    for cell in cells:
        recipe = cell.recipe
        key = (recipe.model, recipe.width, recipe.precision, known_as(recipe.dataset).name == "digits")
        if key not in speeds:
            speeds[key] = _seconds_a_sample(recipe, device)
        samples = recipe.train_size or known_as(recipe.dataset).train_samples
        speed = speeds[key]
        found.append(None if speed is None or samples is None else _seconds(recipe, samples, *speed))
    return found


def _seconds(recipe: Recipe, samples: int, training: float, asking: float) -> float:
    """Every sample is trained on once a generation; tournament and expected ask about many cases, lexicase few."""
    cases = 0
    if recipe.promotion == "expected":
        cases = recipe.promotion_cases or samples
    elif recipe.selection == "tournament":
        cases = samples
    population = recipe.population or 1
    return recipe.require("generations") * (samples * training + cases * population * asking)


def _seconds_a_sample(recipe: Recipe, device: torch.device) -> tuple[float, float] | None:
    """Of training and of asking, from the second of two batches; None for a network that is not one of ours."""
    if recipe.model not in MODELS or not MODELS[recipe.model].smallest_picture:
        return None
    digits = known_as(recipe.dataset).name == "digits"
    shape = (1, 8, 8) if digits else (3, 32, 32)
    model = build(recipe.model, num_classes=10, in_channels=shape[0], image_size=shape[1], width=recipe.width)
    model = model.to(device).to(memory_format=torch.channels_last)
    half = MODELS[recipe.model].gains_from_bfloat16 and native_bfloat16(device)
    half = recipe.precision == "bfloat16" or (recipe.precision == "auto" and half)
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if recipe.threads == "auto" else recipe.threads)
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            x = torch.zeros(_BATCH, *shape, device=device).to(memory_format=torch.channels_last)
            return _timed(model, x, train=True), _timed(model.eval(), x, train=False)
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
