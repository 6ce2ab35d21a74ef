"""Candidates trained together (`placement="stacked"`) agree with those trained one by one, up to rounding."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gradlex
from gradlex import InputError
from gradlex.data import crop_flip


@pytest.fixture
def small(small):
    """Candidates of 16 and 17 samples take three steps each."""
    return small.replace(batch_size=6)


def agree(plain, stacked):
    for one, other in zip(plain.generations, stacked.generations, strict=True):
        assert one.losses == pytest.approx(other.losses, rel=1e-3)
    for name, tensor in plain.model.state_dict().items():
        assert torch.allclose(stacked.model.state_dict()[name], tensor, rtol=1e-3, atol=1e-4), name


@pytest.mark.parametrize(
    "fields",
    [
        {},  # 50 samples among three: batches of two sizes
        {"momentum": "inherit"},
        {"momentum": "inherit", "optimizer": "adamw", "lr": 0.003},
        {"momentum": "none", "batch_size": 25, "population": 2},
        {"validation_fraction": 0.1, "batch_size": 5},  # 45 samples: of all 50 one candidate would have 17
        {"parts": "all", "steps_per_generation": 2},
        {"branch_at": 0.4, "generations": 3},
    ],
    ids=str,
)
def test_stacked_candidates_agree_with_those_trained_one_by_one(fields, images, tiny_cnn, small):
    # The mean of all: a case that rounding decides would lead to another candidate.
    recipe = small.replace(**{"promotion": "average", "lr": 0.02, **fields})
    found = []
    for placement in ("resident", "stacked"):
        model = tiny_cnn()
        model[0].bias = None  # batch norm takes it away: its gradient is rounding alone, which Adam scales up
        found.append(gradlex.train(model, images, recipe, augment=crop_flip(1), placement=placement))
    agree(*found)


def test_parameters_without_dimensions_inherit_their_momentum(images, small):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(0.5))
            self.head = nn.Linear(32, 3)
            nn.init.constant_(self.head.weight, 0.01)
            nn.init.zeros_(self.head.bias)

        def forward(self, x):
            return self.head(x.flatten(1) * self.scale)

    recipe = small.replace(
        promotion="average", momentum="inherit", optimizer="nadam", lr=0.003, generations=3
    )
    agree(*(gradlex.train(Scaled(), images, recipe, placement=each) for each in ("resident", "stacked")))


class Odd(nn.Module):
    """Tied and frozen weights, a layer that is used twice, one at rest, a buffer that is replaced, and two outputs."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.frozen, self.first, self.last = nn.Linear(32, 16), nn.Linear(16, 16), nn.Linear(16, 3)
            self.tied = nn.Linear(16, 16)
        self.tied.weight = self.first.weight
        self.second, self.rest = self.first, nn.Dropout(0.5).eval()
        self.frozen.weight.requires_grad_(False)
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x):
        hidden = self.rest(self.tied(self.second(self.first(self.frozen(x.flatten(1))).relu())))
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * hidden.detach().mean(dim=0)
        return hidden, self.last((hidden - self.mean).relu())


def test_unusual_networks_agree_too(images, small):
    recipe = small.replace(promotion="average", generations=3)
    plain, stacked = (
        gradlex.train(Odd(), images, recipe, output=1, placement=placement)
        for placement in ("resident", "stacked")
    )
    agree(plain, stacked)
    assert stacked.model.mean.abs().max() > 0
    assert torch.equal(stacked.model.frozen.weight, Odd().frozen.weight)


def test_mixed_samples_are_mixed_within_a_candidate(images, small, tiny_cnn):
    recipe = small.replace(promotion="average", augment="mixup0.2")
    agree(*(gradlex.train(tiny_cnn(), images, recipe, placement=each) for each in ("resident", "stacked")))


def test_a_candidate_that_diverges_leaves_the_others_alone(images, small):
    class Fragile(nn.Linear):
        def forward(self, x):
            return super().forward(x.flatten(1)) * torch.where(x.amax() > 50, torch.nan, 1.0)

    images[0][7] = 100.0
    runs = []
    for placement in ("resident", "stacked"):
        model = Fragile(32, 3)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        recipe = small.replace(generations=1, promotion="average")
        runs.append(gradlex.train(model, images, recipe, placement=placement))
    losses = [[loss or -1.0 for loss in run.generations[0].losses] for run in runs]
    assert losses[0].count(-1.0) == 1
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_stacked_pass_is_one_for_all_candidates(images, tiny_cnn, small):
    calls = []

    class Counting(nn.Sequential):
        def forward(self, x):
            if self.training:
                calls.append(tuple(x.shape))
            return super().forward(x)

    for placement in ("resident", "stacked"):
        calls.append(placement)
        recipe = small.replace(population=2, batch_size=25, generations=1, promotion="average")
        gradlex.train(Counting(*tiny_cnn()), images, recipe, placement=placement)
    one_by_one, together = calls[1 : calls.index("stacked")], calls[calls.index("stacked") + 1 :]
    assert len(one_by_one) == 2
    assert len(together) == 2  # one of them to find out whether the network can be stacked


def test_a_stacked_run_resumes_to_the_same_bits(images, tiny_cnn, small, tmp_path, same):
    recipe = small.replace(schedule="constant", momentum="inherit")
    whole = gradlex.train(tiny_cnn(), images, recipe.replace(generations=4), placement="stacked")
    gradlex.train(tiny_cnn(), images, recipe, placement="stacked", out=tmp_path / "run")
    longer = recipe.replace(generations=4)
    resumed = gradlex.train(
        tiny_cnn(), images, longer, placement="stacked", out=tmp_path / "run", resume=True
    )
    assert same(whole.model.state_dict(), resumed.model.state_dict())


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"population": 1}, "one candidate"),
        ({"clip_norm": 1.0}, "clip_norm"),
        ({"vary": {"lr": [0.5, 1.0]}}, "vary"),
        ({"optimizer": "adafactor"}, "optimizer adafactor"),
        ({"population": 3, "batch_size": 16}, "some candidates take 2 steps and others 1"),
    ],
)
def test_what_cannot_be_stacked_is_refused_by_name(fields, told, images, tiny_cnn, small, tmp_path):
    with pytest.raises(InputError, match=f"placement stacked does not go with .*{told}"):
        gradlex.train(tiny_cnn(), images, small.replace(**fields), placement="stacked", out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_draws_random_numbers_is_refused(images, tiny_dropout, small):
    with pytest.raises(InputError, match=r"placement stacked does not go with this model.*vmap"):
        gradlex.train(tiny_dropout(), images, small, placement="stacked")
