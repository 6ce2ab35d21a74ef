"""Regression against scikit-learn's MLPRegressor of the same size, on as many samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import make_friedman1
from sklearn.neural_network import MLPRegressor
from torch import nn

import gradlex
from gradlex import Recipe

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def friedman():
    """Friedman's first problem (1991): five features of eight matter, not linearly; targets in the thousands."""
    x, y = make_friedman1(900, n_features=8, noise=0.5, random_state=0)
    x, y = ((x - 0.5) * 12**0.5).astype(np.float32), (1000 + 100 * y).astype(np.float32)
    return (x[:600], y[:600]), (x[600:], y[600:])


@pytest.fixture(scope="module")
def reference(friedman):
    """What scikit-learn reaches with targets that somebody has standardised for it."""
    (x, y), (x_test, y_test) = friedman
    network = MLPRegressor(
        hidden_layer_sizes=(32,),
        solver="adam",
        learning_rate_init=0.01,
        alpha=0,
        batch_size=30,
        max_iter=40,
        n_iter_no_change=40,
        random_state=0,
    )
    with pytest.warns(Warning, match="Maximum iterations"):
        network.fit(x, (y - y.mean()) / y.std())
    return network.score(x_test, (y_test - y.mean()) / y.std())


@pytest.mark.parametrize(("selection", "generations"), [("sgd", 40), ("epsilon-lexicase", 100)])
def test_r2_is_that_of_scikit_learns_network_of_the_same_size(selection, generations, friedman, reference):
    train, test = friedman
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    recipe = Recipe(
        selection=selection,
        generations=generations,
        batch_size=30,
        optimizer="adam",
        lr=0.01,
        momentum="inherit",
        weight_decay=0,
        population=1 if selection == "sgd" else 3,
        threads=1,
        precision="float32",
    )
    run = gradlex.train(network, train, recipe, test=test, task="regression")
    assert reference > 0.93
    assert run.test["r2"] > reference - 0.02
