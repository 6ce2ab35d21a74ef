"""Batch-norm statistics computed anew, as averaged weights need them (Izmailov et al. 2018, SWA)."""

from __future__ import annotations

from torch.optim.swa_utils import update_bn

from gradlex.engine._context import settings, torch_generator
from gradlex.engine._told import told
from gradlex.engine._worker import Worker
from gradlex.population import State, batch_norm_statistics, batches, install, moved
from gradlex.randomness import stream, torch_seed


def recalibrated(worker: Worker, state: State, count: int, generation: int, index: int = 0) -> State:
    """The state with the statistics of `count` clean training batches, at most of every sample once.

    The batches are drawn anew for each generation (and `index`); every process draws the same ones and computes
    them in full precision. A network without batch norm stays as it is.
    """
    recipe, model, samples = worker.recipe, worker.model, worker.samples
    size = recipe.require("batch_size")
    drawn = stream(recipe.seed, "recalibration", generation, index).permutation(len(samples))[: count * size]
    seed = torch_seed(recipe.seed, "recalibration", generation, index)
    buffers = {name for name, _ in model.named_buffers()}
    # Parameters are shared, buffers copied: a forward pass in training may change those of other layers too.
    own = {name: t.clone() if name in buffers else t for name, t in moved(state, worker.device).items()}
    install(model, own)
    with (
        told(f"the recalibration after generation {generation}"),
        settings(recipe),
        torch_generator(seed, worker.device),  # dropout
    ):
        update_bn((samples.clean(indices)[0] for indices in batches(drawn, size)), model)
    statistics = batch_norm_statistics(model)
    return {name: own[name].to(t.device) if name in statistics else t for name, t in state.items()}
