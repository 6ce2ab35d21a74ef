"""Batch-norm statistics computed anew, against the same computed here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

import gradlex
from gradlex.data import ArraySamples
from gradlex.engine import PopulationEngine, Worker, recalibrated
from gradlex.population import steps_of
from gradlex.randomness import stream
from gradlex.selection import promoting
from gradlex.tasks import Classification

pytestmark = pytest.mark.usefixtures("one_thread")


def worker_of(model, data, recipe):
    return Worker(model, ArraySamples(*data), Classification(), recipe, torch.device("cpu"))


class Counting(nn.Module):
    """Batch norm twice, and a buffer that every forward pass in training changes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.norm, self.linear = nn.BatchNorm1d(32, momentum=0.2), nn.Linear(32, 6)
        self.after, self.head = nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.passes += 1
        return self.head(self.after(self.linear(self.norm(x.flatten(1))).relu()))


def fresh():
    with torch.random.fork_rng():
        return Counting()


def same_bits(one, other):
    return all(torch.equal(one[name], other[name]) for name in {**one, **other})


@pytest.mark.parametrize("count", [1, 3, 99])
def test_recalibrated_statistics_are_those_of_a_direct_computation(count, images, small):
    x, _ = images
    model = fresh()
    worker = worker_of(model, images, small)
    state = worker.first_parent().state
    found = recalibrated(worker, state, count, generation=5)

    drawn = stream(small.seed, "recalibration", 5).permutation(50)[: 8 * count]
    batches = [x[part].flatten(1) for part in np.array_split(drawn, -(-len(drawn) // 8))]
    normed = [(b - b.mean(0)) / (b.var(0, unbiased=False) + 1e-5).sqrt() for b in batches]
    hidden = [model.linear(b).detach().relu() for b in normed]
    for prefix, seen in (("norm", batches), ("after", hidden)):
        expected_mean = torch.stack([batch.mean(0) for batch in seen]).mean(0)
        expected_var = torch.stack([batch.var(0) for batch in seen]).mean(0)
        assert torch.allclose(found[f"{prefix}.running_mean"], expected_mean, atol=1e-6)
        assert torch.allclose(found[f"{prefix}.running_var"], expected_var, rtol=1e-4)
        assert found[f"{prefix}.num_batches_tracked"] == len(seen) == min(count, 7)
    assert (model.norm.momentum, model.after.momentum) == (0.2, 0.1)
    for name, tensor in state.items():  # nothing else has changed, and the state itself not at all
        if not name.startswith(("norm.running", "norm.num", "after.running", "after.num")):
            assert torch.equal(found[name], tensor), name
    assert same_bits(state, worker_of(fresh(), images, small).first_parent().state)


def test_recalibration_is_what_torch_does_for_averaged_weights(images, tiny_cnn, small):
    x, _ = images
    worker = worker_of(tiny_cnn(), images, small.replace(precision="bfloat16"))
    found = recalibrated(worker, worker.first_parent().state, 4, generation=2)
    twin = tiny_cnn().to(memory_format=torch.channels_last)
    drawn = stream(small.seed, "recalibration", 2).permutation(50)[:32].reshape(4, 8)
    update_bn((x[part].contiguous(memory_format=torch.channels_last) for part in drawn), twin)
    assert same_bits(found, twin.state_dict())


def test_the_batches_are_augmented_as_in_training(images, tiny_cnn, small):
    data, seen = ArraySamples(*images).with_augment(lambda batch, rng: batch + 1.0), []
    worker = Worker(tiny_cnn(), data, Classification(), small, torch.device("cpu"))
    worker.model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    recalibrated(worker, worker.first_parent().state, 2, generation=2)
    drawn = stream(small.seed, "recalibration", 2).permutation(50)[:16]
    assert torch.equal(torch.cat(seen), images[0][drawn] + 1.0)


def test_every_promotion_is_followed_by_a_recalibration_with_other_batches(images, tiny_cnn, small):
    recipe = small.replace(recalibrate=2)
    worker = worker_of(tiny_cnn(), images, recipe)
    engine = PopulationEngine(worker, steps=steps_of(recipe))
    for generation in gradlex.evolve(worker.first_parent(), engine, promoting("average", "lexicase"), recipe):
        state = generation.parent.state
        assert state["1.num_batches_tracked"] == 2
        again = recalibrated(worker, state, 2, generation.generation)
        assert same_bits(again, state)
        other = recalibrated(worker, state, 2, generation.generation + 1)
        assert not torch.equal(other["1.running_mean"], state["1.running_mean"])


def test_a_network_without_batch_norm_is_not_changed_by_recalibration(images, tiny_dropout, small, same):
    plain = gradlex.train(tiny_dropout(), images, small)
    other = gradlex.train(tiny_dropout(), images, small.replace(recalibrate=2, recalibrate_final=2))
    assert same(plain.model.state_dict(), other.model.state_dict())
