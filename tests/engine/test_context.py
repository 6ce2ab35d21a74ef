"""The surroundings of a computation: what it sets, and that the caller's own are there again afterwards."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

import gradlex
from gradlex import Recipe
from gradlex.engine._context import reseed, settings

CPU = torch.device("cpu")
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@pytest.mark.parametrize("given", [None, ":16:8"])
def test_a_deterministic_run_leaves_the_environment_as_it_was(given, images, small, monkeypatch):
    monkeypatch.delenv(WORKSPACE, raising=False)
    if given is not None:
        monkeypatch.setenv(WORKSPACE, given)
    seen = set()

    def note(batch, rng):
        seen.add((os.environ.get(WORKSPACE), torch.are_deterministic_algorithms_enabled()))
        return batch

    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    gradlex.train(net, images, small.replace(deterministic=True), test=images, augment=note)
    assert seen == {(given or ":4096:8", True)}
    assert os.environ.get(WORKSPACE) == given
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_environment_is_put_back_after_a_failure_too(monkeypatch):
    monkeypatch.delenv(WORKSPACE, raising=False)

    def fail():
        with settings(Recipe(threads=1, deterministic=True)):
            return {}[os.environ[WORKSPACE]]

    with pytest.raises(KeyError, match=":4096:8"):
        fail()
    assert WORKSPACE not in os.environ


def test_the_callers_wish_to_be_warned_only_stays():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with settings(Recipe(threads=1, deterministic=True)):
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_no_accelerators_generator_is_seeded_for_a_cpu(monkeypatch):
    seeded_too = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded_too.append)
    with torch.random.fork_rng(devices=[]):
        reseed(3, CPU)
        first = torch.rand(2)
        torch.default_generator.manual_seed(3)
        assert torch.equal(torch.rand(2), first)
    assert seeded_too == []
