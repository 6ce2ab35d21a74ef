"""Schedules by name are those of torch; their options are checked beside them."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch
from torch.optim import lr_scheduler

from gradlex import InputError, Recipe


def rates_of_torch(make, generations, lr=0.3):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR calls what it deprecates
        schedule = make(optimizer)
        rates = []
        for _ in range(generations):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
    return rates


def warm(optimizer, steps, then):
    start = lr_scheduler.LinearLR(optimizer, start_factor=1 / (steps + 1), total_iters=steps)
    return lr_scheduler.SequentialLR(optimizer, [start, then], milestones=[steps])


TORCH = {
    "cosine after a warm-up": (
        {"schedule": "cosine", "schedule_options": {"warmup": 5}},
        lambda o: warm(o, 5, lr_scheduler.CosineAnnealingLR(o, T_max=15)),
    ),
    "cosine to a floor": (
        {"schedule": "cosine", "schedule_options": {"low": 0.1}},
        lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=20, eta_min=0.03),
    ),
    "linear": ({"schedule": "linear"}, lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, total_iters=20)),
    "linear after a share": (
        {"schedule": "linear", "schedule_options": {"warmup": 0.2}},
        lambda o: warm(o, 4, lr_scheduler.LinearLR(o, 1.0, 0.0, total_iters=16)),
    ),
    "step": ({"schedule": "step"}, lambda o: lr_scheduler.MultiStepLR(o, [10, 15], gamma=0.1)),
    "step at generations": (
        {"schedule": "step", "schedule_options": {"at": [3, 0.4, 17], "factor": 0.5}},
        lambda o: lr_scheduler.MultiStepLR(o, [3, 8, 17], gamma=0.5),
    ),
    "one-cycle": (
        {"schedule": "one-cycle"},
        lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.3, total_steps=21, cycle_momentum=False),
    ),
    "constant after a warm-up": (
        {"schedule": "constant", "schedule_options": {"warmup": 4}},
        lambda o: lr_scheduler.LinearLR(o, start_factor=0.2, total_iters=4),
    ),
}


@pytest.mark.parametrize("name", TORCH)
def test_a_schedule_gives_the_rates_of_torch(name):
    fields, make = TORCH[name]
    generations = 21 if name == "one-cycle" else 20
    expected = rates_of_torch(make, 20)
    recipe = Recipe(lr=0.3, generations=generations, **fields)
    found = [recipe.lr_at(generation) for generation in range(20)]
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert len(set(found)) > 1


def test_a_one_cycle_may_begin_at_its_top():
    recipe = Recipe(lr=1.0, generations=6, schedule="one-cycle", schedule_options={"warmup": 0, "end": 0.1})
    rates = [recipe.lr_at(generation) for generation in range(6)]
    assert rates[0] == 1.0
    assert rates[-1] == pytest.approx(0.1)
    assert all(one > other for one, other in itertools.pairwise(rates))


def test_a_function_of_ones_own_has_options_too():
    def falling(generation, *, rate: float = 0.5):
        return rate**generation

    recipe = Recipe(lr=1.0, schedule=falling, schedule_options={"rate": 0.1})
    assert [recipe.lr_at(generation) for generation in range(3)] == pytest.approx([1, 0.1, 0.01])
    with pytest.raises(InputError, match="schedule has no option 'rat': it takes rate"):
        Recipe(schedule=falling, schedule_options={"rat": 0.1})
    with pytest.raises(InputError, match="rate must be a number, got 'fast'"):
        Recipe(schedule=falling, schedule_options={"rate": "fast"})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"schedule_options": {"warmpu": 3}},
            "schedule 'cosine' has no option 'warmpu'.*Did you mean 'warmup'",
        ),
        ({"schedule_options": {"warmup": -1}}, "warmup must be a number of at least 0, got -1"),
        ({"schedule_options": {"low": 1}}, "low must be a number of at least 0 and below 1, got 1"),
        ({"schedule": "constant", "schedule_options": {"low": 0.1}}, "'constant' has no option 'low'"),
        ({"schedule": "step", "schedule_options": {"factor": 0}}, "factor must be a number above 0, got 0"),
    ],
)
def test_wrong_options_are_refused_when_the_recipe_is_made(fields, told):
    with pytest.raises(InputError, match=told):
        Recipe(**fields)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"schedule_options": {"warmup": 4}}, "warmup 4 leaves nothing of the 4 generations"),
        ({"schedule": "one-cycle", "schedule_options": {"warmup": 9}}, "warmup 9 leaves nothing of the 4"),
        ({"schedule": "step", "schedule_options": {"at": 0.5}}, r"at must be a list.*\[0.5, 0.75\], got 0.5"),
        ({"schedule": "step", "schedule_options": {"at": ["half"]}}, "at must be a number of at least 0"),
    ],
)
def test_what_no_run_of_this_length_can_have_is_refused(fields, told):
    with pytest.raises(InputError, match=told):
        Recipe(generations=4, **fields).lr_at(3)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "one-cycle", "step"])
def test_a_schedule_over_all_generations_needs_their_number(schedule):
    with pytest.raises(InputError, match=f"{schedule} schedule needs the number of generations"):
        Recipe(schedule=schedule).lr_at(0)


def test_only_a_rate_that_does_not_depend_on_the_length_lets_a_run_be_made_longer():
    steady = Recipe(schedule="constant", generations=20)
    assert steady.extendable
    assert steady.replace(schedule_options={"warmup": 5}).extendable
    assert not steady.replace(schedule_options={"warmup": 0.25}).extendable
    assert not steady.replace(schedule="step").extendable
