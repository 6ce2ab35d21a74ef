"""Whole runs against the same runs written out here as plain PyTorch loops: equal bit for bit."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import gradlex
from gradlex import Recipe
from gradlex.data import crop_flip
from gradlex.randomness import stream, torch_seed

pytestmark = pytest.mark.usefixtures("one_thread")


def cosine(recipe, generation):
    return 0.5 * recipe.lr * (1 + math.cos(math.pi * generation / recipe.generations))


def train(model, optimizer, x, y, order, recipe, augment, generation, candidate):
    """One pass over `order`, and its mean loss."""
    rng = stream(recipe.seed, "augmentation", generation, candidate)
    model.train()
    total = 0.0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(recipe.seed, "dropout", generation, candidate))
        for batch in np.array_split(order, math.ceil(len(order) / recipe.batch_size)):  # even ones
            inputs = x[batch].contiguous(memory_format=torch.channels_last)
            inputs = augment(inputs, rng) if augment else inputs
            with torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bfloat16"):
                loss = F.cross_entropy(model(inputs).float(), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
    return total / len(order)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("net", ["tiny_cnn", "tiny_dropout"])
def test_the_sgd_baseline_is_a_plain_pytorch_loop(net, precision, images, same, request):
    make = request.getfixturevalue(net)
    recipe = Recipe(selection="sgd", generations=3, batch_size=7, seed=4, precision=precision, threads=1)
    run = gradlex.train(make(), images, recipe, augment=crop_flip(1))

    model = make().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    for generation in range(3):
        order = stream(4, "split", generation).permutation(50)
        for group in optimizer.param_groups:
            group["lr"] = cosine(recipe, generation)
        loss = train(model, optimizer, *images, order, recipe, crop_flip(1), generation, 0)
        assert run.generations[generation].losses == (pytest.approx(loss, rel=1e-5),)
    assert same(run.model.state_dict(), model.state_dict())
    assert run.recipe.population == 1
    assert run.recipe.momentum == "inherit"


@pytest.mark.parametrize(
    ("momentum", "fresh", "beta"), [("inherit", False, 0.9), ("reset", True, 0.9), ("none", False, 0.0)]
)
def test_momentum_between_generations_is_carried_dropped_or_absent(
    momentum, fresh, beta, images, tiny_cnn, same
):
    recipe = Recipe(
        population=1, momentum=momentum, generations=3, batch_size=8, precision="float32", threads=1
    )
    run = gradlex.train(tiny_cnn(), images, recipe)

    model = tiny_cnn().to(memory_format=torch.channels_last)
    optimizer = None
    for generation in range(3):
        if optimizer is None or fresh:
            optimizer = torch.optim.SGD(
                model.parameters(), lr=0.1, momentum=beta, weight_decay=1e-4, fused=True
            )
        for group in optimizer.param_groups:
            group["lr"] = cosine(recipe, generation)
        order = stream(0, "split", generation).permutation(50)
        train(model, optimizer, *images, order, recipe, None, generation, 0)
    assert same(run.model.state_dict(), model.state_dict())


def test_adamw_with_inherit_carries_its_moments_and_its_step_count(images, tiny_cnn, same):
    recipe = Recipe(
        population=1,
        momentum="inherit",
        optimizer="adamw",
        lr=0.01,
        schedule="constant",
        generations=3,
        batch_size=8,
        precision="float32",
        threads=1,
    )
    run = gradlex.train(tiny_cnn(), images, recipe)

    model = tiny_cnn().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=1e-4, fused=True)
    for generation in range(3):
        order = stream(0, "split", generation).permutation(50)
        train(model, optimizer, *images, order, recipe, None, generation, 0)
    assert same(run.model.state_dict(), model.state_dict())


def errors_of(candidate, x, y):
    candidate.eval()
    with torch.inference_mode():
        return (candidate(x.contiguous(memory_format=torch.channels_last)).argmax(1) != y).numpy()


def lexicase(errors, order, rng, survive):
    """Algorithm 1's inner loop, one case at a time; who is chosen and after how many cases."""
    pool = list(range(len(errors)))
    for used, case in enumerate(order, start=1):
        passing = [i for i in pool if not errors[i][case]]
        if not passing and not survive:
            return pool[rng.integers(len(pool))], used
        pool = passing or pool
        if len(pool) == 1:
            return pool[0], used
    return pool[rng.integers(len(pool))], len(order)


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("momentum", ["reset", "inherit"])
@pytest.mark.parametrize("net", ["tiny_cnn", "tiny_dropout"])
def test_gradient_lexicase_selection_is_algorithm_1(net, momentum, on_all_fail, images, same, request):
    make = request.getfixturevalue(net)
    recipe = Recipe(
        population=3,
        momentum=momentum,
        selection_options={"on_all_fail": on_all_fail},
        generations=5,
        batch_size=6,
        lr=0.05,
        seed=2,
        precision="float32",
        threads=1,
    )
    run = gradlex.train(make(), images, recipe, augment=crop_flip(1))

    x, y = images
    parent, inherited, expected = make().to(memory_format=torch.channels_last), None, []
    for generation in range(5):
        subsets = np.array_split(stream(2, "split", generation).permutation(50), 3)
        candidates, optimizers = [], []
        for index, subset in enumerate(subsets):
            candidate = copy.deepcopy(parent)
            optimizer = torch.optim.SGD(
                candidate.parameters(),
                lr=cosine(recipe, generation),
                momentum=0.9,
                weight_decay=1e-4,
                fused=True,
            )
            if inherited is not None:
                optimizer.load_state_dict({**optimizer.state_dict(), "state": copy.deepcopy(inherited)})
            train(candidate, optimizer, x, y, subset, recipe, crop_flip(1), generation, index)
            candidates.append(candidate)
            optimizers.append(optimizer)
        order = stream(2, "cases", generation).permutation(50)
        errors = [errors_of(candidate, x, y) for candidate in candidates]
        choice = lexicase(errors, order, stream(2, "choice", generation), on_all_fail == "survive")
        expected.append(choice)
        parent = candidates[choice[0]]
        inherited = optimizers[choice[0]].state_dict()["state"] if momentum == "inherit" else None

    assert [(record.selected, record.cases_used) for record in run.generations] == expected
    assert same(run.model.state_dict(), parent.state_dict())
