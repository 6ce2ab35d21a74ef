"""Graphs recorded on a device (`compile_options mode=reduce-overhead`): torch.compile is mocked, as a CPU has none."""

from __future__ import annotations

import pytest
import torch

import gradlex
from gradlex import InputError, Recipe
from gradlex.data import crop_flip

GRAPHS = {"compile": True, "compile_options": {"mode": "reduce-overhead"}}


@pytest.fixture
def compiled(monkeypatch):
    """The options that torch.compile was called with, and the addresses that each compiled call found."""
    options, addresses = [], set()

    def compile_(function, **given):
        options.append(given)
        model = getattr(function, "module", function)

        def call(*args, **kwargs):
            addresses.add(tuple(tensor.data_ptr() for tensor in model.state_dict(keep_vars=True).values()))
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(torch, "compile", compile_)
    return options, addresses


@pytest.mark.parametrize(
    "fields", [{}, {"promotion": "average", "momentum": "inherit"}, {"recalibrate": 2, "ema": 0.5}], ids=str
)
def test_candidates_are_copied_into_the_weights_that_a_graph_has_recorded(
    fields, compiled, images, tiny_cnn, small, same
):
    recipe, (options, addresses) = small.replace(generations=3, **fields), compiled
    runs = [
        gradlex.train(tiny_cnn(), images, recipe.replace(**graphs), test=images, augment=crop_flip(1))
        for graphs in ({}, GRAPHS)
    ]
    assert options == [{"mode": "reduce-overhead"}] * 2  # to train with, and to evaluate cases with
    assert len(addresses) == 1
    assert same(runs[0].model.state_dict(), runs[1].model.state_dict())
    assert [r.losses for r in runs[0].generations] == [r.losses for r in runs[1].generations]


def test_without_graphs_candidates_are_swapped_and_not_copied(compiled, images, tiny_cnn, small):
    gradlex.train(tiny_cnn(), images, small.replace(compile=True))
    assert compiled[0] == [{}, {}]
    assert len(compiled[1]) > 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"compile_options": {"mode": "default"}}, "compile_options belong to compile"),
        ({"compile": True, "compile_options": {"mood": 1}}, "unknown option of compile 'mood'"),
        ({"compile": True, "compile_options": {"mode": "fast"}}, "compile_options mode must be"),
    ],
)
def test_wrong_options_of_compile_are_refused(fields, told):
    with pytest.raises(InputError, match=told):
        Recipe(**fields)
