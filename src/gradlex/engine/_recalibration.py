"""Batch-norm statistics computed anew, as averaged weights need them (Izmailov et al. 2018, SWA)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from gradlex.engine._context import seeded, settings
from gradlex.engine._worker import Worker
from gradlex.errors import failing_as
from gradlex.population import (
    State,
    batch_norm_layers,
    batches,
    capture,
    changing,
    moved,
    shielded,
    statistics_of,
)
from gradlex.randomness import stream, torch_seed


def recalibrated(worker: Worker, state: State, count: int, generation: int, index: int = 0) -> State:
    """The state with the statistics of `count` training batches, at most of every sample once.

    They are augmented as in training: clean samples have other statistics, above all where crops have black borders.
    The batches are drawn anew for each generation (and `index`); every process draws the same ones and computes them in
    full precision. Layers that stay in evaluation mode when the network trains keep what they have, and so does a
    network without batch norm.
    """
    recipe, model, samples = worker.recipe, worker.model, worker.samples
    size = recipe.require("batch_size")
    rng = stream(recipe.seed, "recalibration", generation, index)
    drawn = rng.permutation(len(samples))[: count * size]
    seed = torch_seed(recipe.seed, "recalibration", generation, index)
    own = shielded(moved(state, worker.device), changing(model))
    worker.put(own)
    worker.training_mode()
    layers = {name: layer for name, layer in batch_norm_layers(model).items() if layer.training}
    if not layers:
        return state
    with (
        failing_as(f"the recalibration after generation {generation}"),
        settings(recipe),
        seeded(seed, worker.device),  # dropout
        torch.no_grad(),
        _means_of_batches(layers.values()),
    ):
        numbers = list(batches(drawn, size))
        for inputs, _ in samples.augmented_batches(numbers, [rng] * len(numbers)):
            worker.call(model, inputs)
    statistics, found = statistics_of(layers), capture(model)
    return {name: found[name].clone().to(t.device) if name in statistics else t for name, t in state.items()}


@contextmanager
def _means_of_batches(layers: Iterable[_BatchNorm]) -> Iterator[None]:
    """Let these layers begin anew and take the plain mean over batches.

    torch.optim.swa_utils.update_bn does this to all layers, and would wipe out what a frozen one has.
    """
    momenta = [(layer, layer.momentum) for layer in layers]
    for layer, _ in momenta:
        layer.reset_running_stats()
        layer.momentum = None
    try:
        yield
    finally:
        for layer, momentum in momenta:
            layer.momentum = momentum
