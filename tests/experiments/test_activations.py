"""Figure 2's features: the largest activation of each channel, and the numbers for their diversity."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from torch import nn

from gradlex import InputError
from gradlex.experiments import features, save_features
from gradlex.experiments.activations import DIVERSITY, common_edges, load_features
from gradlex.models import build
from gradlex.report.paper import figure2


def test_features_are_each_channels_maximum():
    torch.manual_seed(0)
    model, images = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 3)), torch.randn(5, 1, 6, 6)
    found = features(model, images)
    assert list(found) == ["1", "2"]
    np.testing.assert_array_equal(found["1"], model[:2](images).amax(dim=(2, 3)).detach().numpy())


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("resnet18(width=0.125)", ["conv4_x", "conv5_x"]),
        ("small-cnn", None),
        ("vgg16(width=0.125)", None),
        ("mobilenetv2(width=0.25)", None),
        ("densenet121(width=0.25)", None),
        ("senet18(width=0.125)", None),
        ("efficientnetb0(width=0.25)", None),
    ],
)
def test_the_last_two_stages_of_the_papers_networks_are_found(name, layers):
    found = features(build(name, sample=(3, 32, 32), outputs=10), torch.rand(2, 3, 32, 32))
    assert len(found) == 2
    assert layers is None or list(found) == layers
    assert all(values.ndim == 2 and len(values) == 2 for values in found.values())


def test_a_stage_is_found_behind_a_normalization():
    inner = build("resnet20(width=0.25)", sample=(3, 32, 32), outputs=10)
    wrapped = nn.Sequential()
    wrapped.normalize, wrapped.network = nn.Identity(), inner
    found = features(wrapped, torch.rand(2, 3, 32, 32))
    assert all(name.startswith("network.conv") for name in found)


def test_the_model_stays_as_it_was():
    model = build("resnet20(width=0.25)", sample=(3, 32, 32), outputs=10)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    features(model, torch.rand(2, 3, 32, 32))
    assert model.training
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert not any(module._forward_hooks for module in model.modules())


def test_a_network_without_maps_has_no_features():
    with pytest.raises(InputError, match="this network has no stages"):
        features(nn.Sequential(nn.Linear(3, 2)), torch.rand(4, 3))


def test_numbers_of_diversity_are_exact_where_they_are_known():
    edges = common_edges([np.array([0.0, 50.0])])
    spread, alike = np.arange(50.0) + 0.5, np.ones((4, 3))
    assert DIVERSITY["entropy"](spread, edges) == pytest.approx(np.log(50))
    assert DIVERSITY["entropy"](alike, edges) == 0
    assert DIVERSITY["effective rank"](np.eye(4), edges) == pytest.approx(4)
    assert DIVERSITY["effective rank"](alike, edges) == pytest.approx(1)
    assert DIVERSITY["effective rank"](np.zeros((4, 3)), edges) == 1  # of a layer that is dead, not NaN
    assert DIVERSITY["zeros"](np.eye(4), edges) == 0.75


def test_figure_2_is_drawn_from_the_features_that_runs_keep(tmp_path):
    rng = np.random.default_rng(0)
    for method, shift in (("sgd", 0.0), ("lexicase", 0.5)):
        for seed in range(3):
            folder = tmp_path / method / f"seed{seed}"
            folder.mkdir(parents=True)
            save_features(folder, {"layer4": np.maximum(rng.normal(shift, 1, (20, 8)), 0).astype(np.float32)})
    assert load_features(tmp_path / "sgd" / "seed0")["layer4"].shape == (20, 8)
    assert load_features(tmp_path) == {}
    table = figure2(tmp_path)
    assert [row[0] for row in table.rows] == ["layer4"] * 3
    assert [row[1] for row in table.rows] == ["lexicase", "SGD", "lexicase minus SGD"]
    assert float(table.rows[0][2]) < float(table.rows[1][2])  # fewer zeros
    assert (tmp_path / "figure2.svg").read_text().startswith("<svg")


def test_activations_that_are_a_pipe_are_an_error(tmp_path):
    os.mkfifo(tmp_path / "activations.npz")
    with pytest.raises(InputError, match="not a regular file"):
        load_features(tmp_path)
