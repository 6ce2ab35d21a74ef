"""Networks of other people: random or counting in evaluation, partly frozen, of odd shapes and types."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import gradlex
from gradlex.data import ArraySamples
from gradlex.engine import Worker, recalibrated
from gradlex.engine._data_parallel import restore, synchronised
from gradlex.population import all_finite, averaged, capture, channels_last
from gradlex.tasks import Classification

CPU = torch.device("cpu")


def seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return make()


class Plain(nn.Module):
    """A flat network with something odd about it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 16), nn.Linear(16, 3)

    def odd(self, hidden):
        return hidden

    def forward(self, x):
        return self.last(self.odd(self.first(x.flatten(1)).relu()))


class AlwaysDropping(Plain):
    def odd(self, hidden):
        return functional.dropout(hidden, 0.5)  # in evaluation too


class Counting(Plain):
    """Every pass changes what the next one computes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.ones(()))

    def odd(self, hidden):
        self.passes += 1
        return hidden / self.passes.sqrt()


class Rebinding(Counting):
    def odd(self, hidden):
        self.passes = self.passes + 1
        return hidden / self.passes.sqrt()


class Masked(Plain):
    def __init__(self):
        super().__init__()
        mask = torch.zeros(3)
        mask[2] = -math.inf
        self.mask = nn.Parameter(mask, requires_grad=False)

    def forward(self, x):
        return super().forward(x) + self.mask.clamp(min=-5)


class Volumes(nn.Module):
    """Convolutions of images and of volumes."""

    def __init__(self):
        super().__init__()
        self.flat, self.deep = nn.Conv2d(2, 4, 3, padding=1), nn.Conv3d(1, 2, 3, padding=1)
        self.head = nn.Linear(128, 3)

    def forward(self, x):
        return self.head(self.deep(self.flat(x)[:, None]).flatten(1))


class Spectral(Plain):
    def __init__(self):
        super().__init__()
        self.filter = nn.Parameter(torch.ones(9, dtype=torch.complex64))

    def odd(self, hidden):
        return torch.fft.irfft(torch.fft.rfft(hidden) * self.filter, n=16)


class Frozen(nn.BatchNorm1d):
    """As in backbones that are not trained any more."""

    def train(self, mode=True):
        return super().train(False)


@pytest.mark.parametrize("network", [AlwaysDropping, Counting, Rebinding], ids=lambda n: n.__name__)
def test_asking_a_network_changes_nothing_and_leaves_the_callers_randomness_alone(
    network, images, small, same
):
    recipe = small.replace(generations=4, selection_options={"on_all_fail": "survive"})
    before = torch.get_rng_state()
    runs = [
        gradlex.train(seeded(network), images, recipe, test=images, evaluate_every=every)
        for every in (1, 1, 4)
    ]
    assert torch.equal(torch.get_rng_state(), before)
    for run in runs[1:]:
        assert [r.selected for r in run.generations] == [r.selected for r in runs[0].generations]
        assert same(run.model.state_dict(), runs[0].model.state_dict())
        assert run.test["loss"] == runs[0].test["loss"]
    for tensor in (*runs[0].model.parameters(), *runs[0].model.buffers()):
        assert not tensor.is_inference()
    runs[0].model.train()(images[0]).sum().backward()


@pytest.mark.parametrize("network", [Masked, Volumes, Spectral], ids=lambda n: n.__name__)
def test_a_network_with_a_mask_with_volumes_or_with_complex_weights_is_trained(network, images, small):
    given = seeded(network)
    run = gradlex.train(given, images, small)
    assert all(record.losses == tuple(filter(None, record.losses)) for record in run.generations)
    names = {name for name, p in given.named_parameters() if p.requires_grad}
    after = dict(run.model.named_parameters())
    assert all(not torch.equal(after[name], p) for name, p in given.named_parameters() if name in names)


def test_a_candidate_with_infinite_statistics_has_diverged():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert all_finite(net, torch.tensor(0.5))
    net[1].running_var[0] = math.inf
    assert not all_finite(net, torch.tensor(0.5))


def test_recalibration_leaves_frozen_batch_norm_as_it_is_and_computes_with_it(images, small):
    x, y = images
    net = nn.Sequential(nn.Flatten(), Frozen(32), nn.Linear(32, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    net[1].running_mean.fill_(2.0)
    net[1].running_var.fill_(9.0)
    worker = Worker(net, ArraySamples(x, y), Classification(), small, CPU)
    found = recalibrated(worker, worker.first_parent().state, 99, generation=0)
    assert set(found["1.running_mean"].tolist()) == {2.0}
    assert set(found["1.running_var"].tolist()) == {9.0}
    seen = net[2](net[1].eval()(x.flatten(1))).detach()
    assert torch.allclose(found["3.running_mean"], seen.mean(0), atol=0.05)


def test_batch_norm_of_a_group_becomes_that_of_one_process_again(images):
    shared = nn.BatchNorm2d(2)
    net = nn.Sequential(shared, nn.Conv2d(2, 2, 1), shared, nn.Flatten(), nn.BatchNorm1d(32)).eval()
    kinds = [type(layer) for layer in net]
    before = copy.deepcopy(net)(images[0])
    replaced = synchronised(net, None)
    assert isinstance(net[0], nn.SyncBatchNorm)
    net[4].running_mean.add_(1.0)  # what training changes
    net[4].weight.data = 2 * net[4].weight.data
    restore(net, replaced)
    assert [type(layer) for layer in net] == kinds
    assert net[0] is net[2]  # one layer in two places
    assert torch.allclose(net(images[0]), 2 * (before - 1), atol=1e-4)


def test_the_callers_data_gets_no_gradients_and_the_callers_gradients_have_no_part(images, small, same):
    x, y = images
    x = x.clone().requires_grad_()
    net = seeded(Plain)
    plain = gradlex.train(net, images, small)
    net(images[0]).sum().backward()  # stale ones
    run = gradlex.train(net, (x, y), small)
    assert x.grad is None
    assert same(run.model.state_dict(), plain.model.state_dict())


def test_stale_gradients_have_no_part_in_a_loop_of_ones_own(images, small, same):
    states = []
    for stale in (False, True):
        net = seeded(Plain)
        if stale:
            net(images[0]).sum().backward()
        worker = Worker(net, ArraySamples(*images), Classification(), small, CPU)
        parent = worker.first_parent()
        subset = torch.arange(24).numpy()
        states.append(worker.train(parent, 0, subset, 0.1).state)
    assert same(*states)


def test_the_steps_of_a_scalar_parameter_are_not_averaged():
    state = {"scale": torch.tensor(1.0)}
    optimizer = {"scale": {"step": torch.tensor(3.0), "exp_avg": torch.tensor(0.5)}}
    assert set(averaged(state, optimizer)) == {("state", "scale"), ("optimizer", "scale", "exp_avg")}


def test_the_weights_that_local_workers_share_are_never_written_to(images, small, tiny_cnn, same):
    model = channels_last(tiny_cnn())
    shared = capture(model)
    values = copy.deepcopy(shared)
    worker = Worker(model, ArraySamples(*images), Classification(), small, CPU)
    parent = worker.first_parent()
    trained = worker.train(parent, 0, np.arange(24), 0.1)
    worker.errors([trained.state], np.arange(50))
    worker.evaluate(trained.state, worker.samples)
    recalibrated(worker, trained.state, 2, generation=0)
    assert same(shared, values)
    assert not same(trained.state, values)
