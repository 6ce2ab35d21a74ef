"""Means over several processes are, bit for bit, those of one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gradlex
from gradlex import Callback

FIELDS = {
    "generations": 3,
    "momentum": "inherit",
    "lr": 0.05,
    "outer_lr": 0.8,
    "outer_momentum": 0.5,
    "ema": 0.7,
    "recalibrate": 2,
    "recalibrate_final": 2,
}


MORE = (("expected", 3), ("average", 2), ("survivors", 2))


def told(run):
    return [
        (r.losses, r.selected, r.weights, r.entropy, r.reason, r.cases_evaluated) for r in run.generations
    ]


@pytest.mark.parametrize(
    ("promotion", "workers"),
    [
        ("expected", 2),
        ("average", 3),
        ("winner", 2),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE),
    ],
)
def test_any_number_of_workers_gives_the_same_bits(promotion, workers, images, tiny_cnn, small, same):
    recipe = small.replace(**FIELDS, promotion=promotion)
    alone, team = (gradlex.train(tiny_cnn(), images, recipe, workers=n) for n in (1, workers))
    assert told(team) == told(alone)
    assert any(record.entropy > 0 for record in alone.generations) == (promotion != "winner")
    assert same(team.model.state_dict(), alone.model.state_dict())
    assert same(team.ema.state_dict(), alone.ema.state_dict())


class Death(BaseException):
    pass


class Dies(Callback):
    def on_generation(self, run, record):
        raise Death


def test_a_run_of_one_worker_is_resumed_with_two(images, tiny_cnn, small, same, tmp_path):
    recipe = small.replace(**FIELDS, promotion="average")
    whole = gradlex.train(tiny_cnn(), images, recipe)
    with pytest.raises(Death):
        gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", callbacks=[Dies()])
    again = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", resume=True, workers=2)
    assert told(again) == told(whole)
    assert same(again.model.state_dict(), whole.model.state_dict())
    assert same(again.ema.state_dict(), whole.ema.state_dict())


def linear():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(32, 3))


def test_a_group_that_shares_a_candidate_speaks_once_in_the_mean(images, small):
    """Two candidates of two workers each: without batch norm the group's steps are those of one worker."""
    recipe = small.replace(population=2, promotion="average", generations=3, outer_momentum=0.5)
    alone, team = (gradlex.train(linear(), images, recipe, workers=n) for n in (1, 4))
    assert [record.weights for record in team.generations] == [(0.5, 0.5)] * 3
    assert torch.allclose(team.model[1].weight, alone.model[1].weight, rtol=1e-4, atol=1e-5)
