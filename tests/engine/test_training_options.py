"""Clipping, accumulation and parameter groups against plain PyTorch loops, bit for bit."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import gradlex
from gradlex import InputError, Recipe
from gradlex.randomness import stream

pytestmark = pytest.mark.usefixtures("one_thread")

BASE = Recipe(generations=3, batch_size=8, lr=0.05, precision="float32", threads=1, weight_decay=0.01)


def two_groups(model):
    norms = [p for p in model.parameters() if p.ndim <= 1]
    others = [p for p in model.parameters() if p.ndim > 1]
    return [{"params": others}, {"params": norms, "weight_decay": 0.0}]


def slow_head(name, parameter):
    return {"lr": 0.1, "momentum": 0.5} if name.startswith("4.") else {}


def head_groups(model):
    *body, head = list(model.children())
    return [
        {"params": [p for layer in body for p in layer.parameters()]},
        {"params": list(head.parameters()), "lr": 0.1, "momentum": 0.5},
    ]


SETTINGS = {
    "clipping": ({"clip_norm": 0.5}, None),
    "accumulation": ({"accumulate": 3}, None),
    "no decay": ({"parameter_groups": "no-decay"}, two_groups),
    "a function": ({"parameter_groups": slow_head}, head_groups),
    "all of it": (
        {
            "clip_norm": 0.5,
            "accumulate": 2,
            "parameter_groups": "no-decay",
            "schedule_options": {"warmup": 1},
        },
        two_groups,
    ),
}


def optimizer_of(model, groups):
    given = model.parameters() if groups is None else groups(model)
    return torch.optim.SGD(given, lr=1.0, momentum=0.9, weight_decay=0.01, fused=True)


def train(model, optimizer, x, y, order, recipe, generation):
    for group in optimizer.param_groups:
        group.setdefault("factor", group["lr"])
        group["lr"] = recipe.lr_at(generation) * group["factor"]
    model.train()
    clipped = 0
    for batch in np.array_split(order, math.ceil(len(order) / recipe.batch_size)):
        inputs = x[batch].contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        ends = [len(batch) * place // recipe.accumulate for place in range(recipe.accumulate + 1)]
        for start, stop in itertools.pairwise(ends):
            loss = F.cross_entropy(model(inputs[start:stop]), y[batch][start:stop])
            (loss * ((stop - start) / len(batch))).backward()
        if recipe.clip_norm is not None:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            clipped += bool(norm > recipe.clip_norm)
        optimizer.step()
    return clipped


@pytest.mark.parametrize("name", SETTINGS)
def test_one_network_is_trained_as_a_plain_loop_trains_it(name, images, tiny_cnn, same):
    changes, groups = SETTINGS[name]
    recipe = BASE.replace(selection="sgd", **changes)
    run = gradlex.train(tiny_cnn(), images, recipe)

    model = tiny_cnn().to(memory_format=torch.channels_last)
    optimizer, clipped = optimizer_of(model, groups), 0
    for generation in range(3):
        order = stream(0, "split", generation).permutation(50)
        clipped += train(model, optimizer, *images, order, recipe, generation)
    assert same(run.model.state_dict(), model.state_dict())
    assert (clipped > 0) == (recipe.clip_norm is not None)
    plain = gradlex.train(tiny_cnn(), images, BASE.replace(selection="sgd"))
    assert not same(run.model.state_dict(), plain.model.state_dict())


@pytest.mark.parametrize("name", ["no decay", "a function", "all of it"])
def test_a_population_inherits_the_momentum_of_every_group(name, images, tiny_cnn, same):
    changes, groups = SETTINGS[name]
    recipe = BASE.replace(population=2, momentum="inherit", selection="random", **changes)
    run = gradlex.train(tiny_cnn(), images, recipe)

    parent, inherited = tiny_cnn().to(memory_format=torch.channels_last), None
    for generation in range(3):
        subsets = np.array_split(stream(0, "split", generation).permutation(50), 2)
        trained = []
        for subset in subsets:
            candidate = copy.deepcopy(parent)
            optimizer = optimizer_of(candidate, groups)
            if inherited is not None:
                optimizer.load_state_dict({**optimizer.state_dict(), "state": copy.deepcopy(inherited)})
            train(candidate, optimizer, *images, subset, recipe, generation)
            trained.append((candidate, optimizer.state_dict()["state"]))
        parent, inherited = trained[run.generations[generation].selected]
    assert same(run.model.state_dict(), parent.state_dict())


def test_a_part_of_a_step_has_at_least_two_samples(images, tiny_cnn):
    with pytest.raises(InputError, match="accumulate 5 is more than half of the batch size of 8"):
        gradlex.train(tiny_cnn(), images, BASE.replace(accumulate=5))


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ("no-decays", "unknown parameter_groups 'no-decays'.*Did you mean 'no-decay'"),
        (lambda name, parameter: None, r"options of '0.weight' as a mapping, \{\} for.*got None"),
        (
            lambda name, parameter: {"weigth_decay": 0},
            "option of optimizer sgd for '0.weight' 'weigth_decay'",
        ),
        (
            lambda name, parameter: {"lr": -1},
            "factor lr of '0.weight' must be a number of at least 0, got -1",
        ),
        (
            lambda name, parameter: {"maximize": True},
            "unknown option of optimizer sgd for '0.weight' 'maximize'",
        ),
    ],
)
def test_groups_that_no_optimizer_takes_are_refused(groups, told, images, tiny_cnn):
    with pytest.raises(InputError, match=told):
        gradlex.train(tiny_cnn(), images, BASE.replace(parameter_groups=groups))


def test_groups_that_were_a_function_must_be_given_again(images, tiny_cnn):
    stored = Recipe.from_dict(BASE.replace(parameter_groups=slow_head).to_dict())
    with pytest.raises(InputError, match=r"parameter_groups was a function.*Recipe\(parameter_groups="):
        gradlex.train(tiny_cnn(), images, stored)
