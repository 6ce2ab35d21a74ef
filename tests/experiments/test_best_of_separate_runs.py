"""sgd-best: what a person would do instead of a population; the validation part picks, and every run is paid for."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from gradlex import Recipe
from gradlex.errors import InputError
from gradlex.experiments import Grid, Plan, Planned, prepare
from gradlex.report import gather
from gradlex.report._plots import looks
from gradlex.runs import Execution, Named, start


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    root = tmp_path_factory.mktemp("best")
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = (30 * y[:, None, None] + rng.integers(0, 190, (90, 6, 6))).astype(np.uint8)
    np.savez(root / "mine.npz", x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    grid = Grid(
        datasets=(str(root / "mine.npz"),),
        models=("mlp",),
        methods=("sgd", "sgd-best"),
        populations=(3,),
        seeds=2,
        epochs=6,
        shared=Recipe(threads=1, width=0.1, batch_size=10, augment="none"),
    )
    jobs = prepare(grid.cells(), root, device=torch.device("cpu"))
    for job in jobs:
        start(Named(), job.recipe, Execution(workers=1), out=job.folder)
    runs = tuple(Planned(method=job.method, run=job.folder.name, recipe=job.recipe) for job in jobs)
    made = Plan(root=root, name="compare", scale="own", command="", runs=runs)
    made.save()
    return made


def results(plan, seed):
    return {
        planned.run: json.loads((plan.path(planned) / "result.json").read_text())
        for planned in plan.runs
        if planned.method == "sgd-best" and planned.recipe.seed == seed
    }


def test_each_run_has_a_share_of_the_generations_and_its_own_setting(plan):
    recipes = [planned.recipe for planned in plan.runs if planned.method == "sgd-best"]
    assert len(recipes) == 6
    assert {recipe.generations for recipe in recipes} == {2}
    assert {recipe.validation_fraction for recipe in recipes} == {0.1}
    assert len({(recipe.lr, recipe.weight_decay) for recipe in recipes}) == 3


def test_the_best_on_the_validation_part_counts_and_the_cost_is_that_of_all(plan):
    evidence = gather(plan)
    arm = evidence.on(evidence.settings[0])["best of p SGD runs"]
    for seed in (0, 1):
        found = results(plan, seed)
        best = max(found.values(), key=lambda result: result["metrics"]["validation"]["accuracy"])
        picked = arm.runs[seed]
        assert picked.validation == 100 * best["metrics"]["validation"]["accuracy"]
        assert picked.test == 100 * found[picked.path.name]["metrics"]["test"]["accuracy"]
        assert (
            picked.samples_trained
            == sum(result["samples_trained"] for result in found.values())
            == 3 * 2 * 54
        )
    assert arm.costs == {"samples trained": [0, 3 * 54, 3 * 2 * 54], "critical path": [0, 54, 2 * 54]}
    assert len(set(looks(evidence).values())) == 2
    assert evidence.missing == ()


def test_a_seed_of_which_a_run_is_missing_does_not_count(plan, tmp_path):
    copied = shutil.copytree(plan.root, tmp_path / "copy")
    some = next(planned for planned in plan.runs if planned.method == "sgd-best" and planned.recipe.seed == 1)
    shutil.rmtree(copied / "runs" / some.run)
    evidence = gather(Plan(root=copied, name="compare", scale="own", command="", runs=plan.runs))
    assert list(evidence.on(evidence.settings[0])["best of p SGD runs"].runs) == [0]
    assert evidence.missing == ("1 of 6 runs of best of p SGD runs (seed 1 not started).",)


def test_runs_without_a_validation_part_are_refused(plan, tmp_path):
    copied = shutil.copytree(plan.root, tmp_path / "copy")
    for path in copied.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        result["metrics"].pop("validation", None)
        path.write_text(json.dumps(result))
    with pytest.raises(InputError, match="no validation accuracy"):
        gather(Plan(root=copied, name="compare", scale="own", command="", runs=plan.runs))
