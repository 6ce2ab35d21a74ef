"""Schedules against torch's."""

import sys
import warnings
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch.optim import Optimizer, lr_scheduler

from gradlex import InputError, Recipe


def warm(optimizer: Optimizer, steps: int, then: lr_scheduler.LRScheduler) -> lr_scheduler.LRScheduler:
    start = lr_scheduler.LinearLR(optimizer, start_factor=1 / (steps + 1), total_iters=steps)
    return lr_scheduler.SequentialLR(optimizer, [start, then], milestones=[steps])


TORCH = {
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=20),
    "cosine(warmup=5)": lambda o: warm(o, 5, lr_scheduler.CosineAnnealingLR(o, T_max=15)),
    "linear": lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, total_iters=20),
    "linear(warmup=0.2)": lambda o: warm(o, 4, lr_scheduler.LinearLR(o, 1.0, 0.0, total_iters=16)),
    "constant": lambda o: lr_scheduler.ConstantLR(o, factor=1.0),
    "constant(warmup=4)": lambda o: lr_scheduler.LinearLR(o, start_factor=0.2, total_iters=4),
}


@pytest.mark.parametrize("text", TORCH)
def test_a_schedule_gives_the_learning_rates_of_torch(text: str) -> None:
    make: Callable[[Optimizer], lr_scheduler.LRScheduler] = TORCH[text]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    recipe = Recipe(lr=0.3, epochs=20, schedule=text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR calls what it deprecates
        schedule = make(optimizer)
        for generation in range(20):
            assert recipe.lr_at(generation) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6, abs=1e-12)
            optimizer.step()
            schedule.step()


def test_a_schedule_can_be_named_as_a_function_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("halving")
    module.halve = lambda generation, epochs, *, base=0.5: base**generation
    monkeypatch.setitem(sys.modules, "halving", module)
    recipe = Recipe(lr=8.0, epochs=3, schedule="halving:halve(base=0.25)")
    assert [recipe.lr_at(generation) for generation in range(3)] == [8.0, 2.0, 0.5]
    assert recipe.to_dict()["schedule"] == "halving:halve(base=0.25)"


def test_a_recipe_imports_a_schedule_only_to_use_it() -> None:
    recipe = Recipe(epochs=3, schedule="absent:schedule")
    with pytest.raises(InputError, match="schedule 'absent:schedule': importing absent failed"):
        recipe.lr_at(0)


@pytest.mark.parametrize("schedule", ["cosine(warmup=4)", "linear(warmup=9)", "constant(warmup=4)"])
def test_a_warm_up_must_leave_something_of_the_run(schedule: str) -> None:
    with pytest.raises(InputError, match="leaves nothing of the 4 epochs: give a shorter one"):
        Recipe(epochs=4, schedule=schedule).lr_at(0)


def test_a_tail_replaces_the_schedule_from_the_branch_on() -> None:
    recipe = Recipe(epochs=8, branch_at=0.5, tail="constant(lr=0.05)")
    assert [recipe.lr_at(generation) for generation in range(4, 8)] == [0.05] * 4
    assert recipe.lr_at(3) == Recipe(epochs=8).lr_at(3)
