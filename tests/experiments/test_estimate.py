"""How long runs will take, guessed from one speed of training and one of asking."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from gradlex.experiments import Cell, estimate, prepare
from gradlex.recipe import Recipe
from gradlex.runs import Execution, RunFolder, execute, named_problem

CPU = torch.device("cpu")
SAMPLES = 60
BASE = Recipe(train_size=SAMPLES, population=4, generations=3, threads=1)
TRAINING, ASKING = 2.0, 0.5


@pytest.fixture(autouse=True)
def speeds(monkeypatch):
    monkeypatch.setattr("gradlex.experiments._estimate._seconds_a_sample", lambda *facts: (TRAINING, ASKING))


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"selection": "sgd", "population": 1}, 0),
        ({"selection": "lexicase"}, 0),  # few cases
        ({"selection": "tournament"}, 4 * SAMPLES),
        ({"promotion": "expected", "promotion_cases": 20}, 4 * 20),
        ({"promotion": "expected", "promotion_cases": 1_000}, 4 * SAMPLES),
    ],
)
def test_a_generation_trains_on_every_sample_and_asks_as_the_method_does(changes, asked, tmp_path):
    cells = [Cell(method="lexicase", recipe=BASE.replace(**changes))]
    expected = 3 * (SAMPLES * TRAINING + asked * ASKING)
    assert estimate(cells, prepare(cells, tmp_path, device=CPU), CPU) == [expected]
    assert estimate(cells, [None], CPU) == [expected]  # without the data, by the recipe alone


def test_of_an_interrupted_run_only_what_is_left_counts(tmp_path):
    cells = [Cell(method="lexicase", recipe=BASE.replace(schedule="constant"))]
    (job,) = prepare(cells, tmp_path, device=CPU)
    shorter = dataclasses.replace(job.recipe, generations=2)
    execute(named_problem(shorter, device=CPU), folder=RunFolder(job.folder), execution=Execution())
    assert estimate(cells, prepare(cells, tmp_path, device=CPU), CPU) == [1 * SAMPLES * TRAINING]
