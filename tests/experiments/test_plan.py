"""The plan's file, when several commands are at the same plan, and when it cannot be written or read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gradlex import Recipe
from gradlex.errors import InputError
from gradlex.experiments import Plan, Planned, stored_plan, stored_plans


@pytest.fixture
def plan(tmp_path):
    recipes = [Recipe(seed=seed) for seed in range(20)]
    runs = [Planned(method="lexicase", run=f"digits-seed{each.seed}", recipe=each) for each in recipes]
    return Plan(root=tmp_path, name="compare", scale="own", command="gradlex compare", runs=tuple(runs))


def test_commands_at_the_same_plan_do_not_disturb_each_other(plan):
    def save_and_read(_):
        plan.save()
        return stored_plan(plan.file)

    with ThreadPoolExecutor(4) as commands:
        read = list(commands.map(save_and_read, range(20)))
    assert read == [plan] * 20
    assert [path.name for path in plan.root.iterdir()] == ["compare.json"]


def test_a_plan_that_cannot_be_written_leaves_nothing_behind(plan):
    plan.file.mkdir()
    with pytest.raises(OSError, match=r"compare\.json"):
        plan.save()
    assert [path.name for path in plan.root.iterdir()] == ["compare.json"]


def test_a_plan_that_is_none_is_named(plan):
    plan.file.write_text('{"experiment": "compare"}')
    with pytest.raises(InputError, match=r"compare\.json is not the plan of an experiment: KeyError"):
        stored_plans(plan.root)
