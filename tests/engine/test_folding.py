"""Batch norm folded into convolutions: the same answers up to rounding, faster; training and test metrics as before."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import gradlex
from gradlex import InputError, Recipe
from gradlex.data import ArraySamples
from gradlex.engine import Folding, Worker
from gradlex.models import MODELS, build
from gradlex.population import capture, install
from gradlex.tasks import Classification


def shaken(model):
    """The model with statistics and scales that fold into something else than before."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(3)
        for layer in model.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                for tensor in (layer.running_mean, layer.weight, layer.bias):
                    tensor.uniform_(0.5, 1.5)
                layer.running_var.uniform_(0.5, 1.5)
    return model.eval()


def answers(model, x):
    folding = Folding(model)
    install(folding.module, folding.state(capture(model)))
    with torch.no_grad():
        return folding, folding.module(x)


@pytest.mark.parametrize(
    "name", ["resnet20", "resnet18", "vgg16", "mobilenetv2", "senet18", "efficientnetb0"]
)
def test_a_folded_network_answers_as_the_network_itself_does(name):
    model = shaken(build(name, num_classes=10, in_channels=3, width=0.25))
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    folding, found = answers(model, x)
    with torch.no_grad():
        expected = model(x)
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
    left = [layer for layer in folding.module.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(left) == (8 if name == "senet18" else 0)  # whose blocks begin with batch norm


def test_batch_norm_that_follows_no_convolution_stays(tiny_cnn):
    model = shaken(nn.Sequential(nn.BatchNorm2d(2), *tiny_cnn()))
    x = torch.randn(3, 2, 4, 4)
    folding, found = answers(model, x)
    assert sum(isinstance(layer, nn.BatchNorm2d) for layer in folding.module.modules()) == 1
    with torch.no_grad():
        assert torch.allclose(found, model(x), atol=1e-5)


class Skipping(nn.Module):
    """Uses a convolution's output twice: it must stay what it was."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)
        self.last, self.last_norm = nn.Conv2d(4, 3, 2), nn.BatchNorm2d(3)

    def forward(self, x):
        x = self.conv(x)
        return self.last_norm(self.last(x + self.norm(x))).flatten(1)


def test_a_convolution_whose_output_goes_elsewhere_too_is_left_alone():
    model = shaken(Skipping())
    x = torch.randn(3, 2, 4, 4)
    folding, found = answers(model, x)
    assert [type(layer).__name__ for layer in folding.module.children()] == [
        "Conv2d",
        "BatchNorm2d",
        "Conv2d",
    ]
    with torch.no_grad():
        assert torch.allclose(found, model(x), atol=1e-4)


def test_errors_are_those_of_the_unfolded_network_up_to_rounding(images, tiny_cnn, small):
    tables = []
    for fold in (False, True):
        task, recipe = Classification("loss"), small.replace(fold_norm=fold)
        worker = Worker(shaken(tiny_cnn()), ArraySamples(*images), task, recipe, torch.device("cpu"))
        state = worker.first_parent().state
        tables.append(worker.errors([state, {name: 2 * t for name, t in state.items()}], np.arange(50)))
    assert np.allclose(*tables, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(*tables)  # another network computed them
    assert not np.allclose(tables[0][0], tables[0][1])


def test_training_and_metrics_are_not_folded(images, tiny_cnn, small, same):
    recipe = small.replace(promotion="average")  # nobody selects
    plain, folded = (
        gradlex.train(tiny_cnn(), images, recipe.replace(fold_norm=on), test=images) for on in (False, True)
    )
    assert same(plain.model.state_dict(), folded.model.state_dict())
    assert plain.result["metrics"] == folded.result["metrics"]
    assert any(isinstance(layer, nn.BatchNorm2d) for layer in folded.model.modules())


def test_a_folded_run_gives_the_same_bits_again(images, tiny_cnn, small, same):
    one, other = (gradlex.train(tiny_cnn(), images, small.replace(fold_norm=True)) for _ in range(2))
    assert same(one.model.state_dict(), other.model.state_dict())


class Deciding(nn.Module):
    """Looks at its numbers, which a trace has none of."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        x = x.flatten(1)
        return self.head(x if x.sum() > 0 else -x)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Deciding, "fold_norm needs a model that torch.fx can trace"),
        (
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(32, 3)),
            "directly behind a convolution",
        ),
    ],
)
def test_a_network_that_cannot_be_folded_is_refused_before_anything_is_written(model, told, images, tmp_path):
    with pytest.raises(InputError, match=told):
        gradlex.train(model(), images, Recipe(fold_norm=True, generations=1), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_every_network_of_the_paper_can_be_traced():
    paper = [name for name, info in MODELS.items() if name not in ("mlp",)]
    for name in paper:
        assert Folding(build(name, num_classes=10, in_channels=3, width=0.25)).module is not None, name
