"""What a report takes from a finished run, whatever its task, and what it refuses."""

from __future__ import annotations

import dataclasses
import math

import pytest

from gradlex.errors import InputError
from gradlex.report._outcome import outcome
from gradlex.runs import stored_run

ERROR = {"name": "rmse", "higher_is_better": False, "fraction": False}
ACCURACY = {"name": "accuracy", "higher_is_better": True, "fraction": True}


@pytest.fixture
def run(experiment):
    plan = experiment("compare", {"lexicase": [70.0]}, epochs=4)
    return stored_run(plan.path(plan.runs[0]))


def with_metrics(run, metrics, measures=(ERROR,)):
    records = [
        dataclasses.replace(record, metrics=metrics if record.metrics else {}) for record in run.generations
    ]
    result = {**run.result, "metrics": metrics, "measures": list(measures)}
    return dataclasses.replace(run, generations=records, result=result)


def test_a_run_of_0_1_0_has_its_accuracy_in_per_cent(run):
    found = outcome(run)
    assert (found.measure.name, found.measure.fraction, found.revision) == ("accuracy", True, 1)
    assert (found.test, found.train) == (pytest.approx(70), pytest.approx(96))
    assert list(found.curve)[-1] == found.generations
    assert found.curve[found.generations] == pytest.approx(70)
    assert found.samples_after[found.generations] == found.samples_trained


def test_costs_follow_the_recipes_branch_and_its_steps(run):
    recipe = dataclasses.replace(
        run.recipe, selection="lexicase", population=3, branch_at=0.5, steps_per_generation=4, batch_size=10
    )
    found = outcome(dataclasses.replace(run, recipe=recipe))
    half = found.generations // 2
    assert found.samples_after[: half + 2] == [*range(0, 40 * half + 1, 40), 40 * half + 120]
    assert found.critical_path_after == list(range(0, 40 * found.generations + 1, 40))


def test_the_first_measure_is_the_primary_one(run):
    metrics = {"test": {"rmse": 1.5, "accuracy": 0.25}}
    found = outcome(with_metrics(run, metrics))
    assert (found.measure.name, found.measure.higher_is_better) == ("rmse", False)
    assert (found.test, found.train) == (1.5, None)
    assert set(found.curve.values()) == {1.5}
    assert outcome(with_metrics(run, metrics, (ACCURACY, ERROR))).test == 25


def test_an_evaluation_that_is_not_finite_is_not_drawn_and_a_result_that_is_not_is_refused(run):
    diverged = [
        dataclasses.replace(record, metrics={"test": {"rmse": math.nan}}) for record in run.generations
    ]
    whole = with_metrics(run, {"test": {"rmse": 1.5}})
    found = outcome(dataclasses.replace(whole, generations=diverged))
    assert found.curve == {found.generations: 1.5}
    with pytest.raises(InputError, match="no finite test rmse"):
        outcome(with_metrics(run, {"test": {"rmse": math.nan}}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metrics": {"train": {"rmse": 1.0}}}, "no test metrics"),
        ({"metrics": []}, "metrics must be a mapping"),
        ({"metrics": {"test": [1]}}, "test metrics must be a mapping"),
        ({"metrics": {"test": {"rmse": "low"}}}, "test rmse must be a number"),
        ({"metrics": {"test": {"rmse": math.inf}}}, "test rmse must be a number"),
        ({"metrics": {"test": {"accuracy": 0.5}}}, "no finite test rmse"),
        ({"measures": []}, "measures must be a list"),
        ({"measures": "rmse"}, "measures must be a list"),
        ({"measures": ["rmse"]}, "the first measure must be a mapping"),
        ({"measures": [{"name": 3}]}, "name of the first measure must be text"),
        (
            {"measures": [{"name": "rmse", "fraction": 1}]},
            "fraction of the first measure must be True or False",
        ),
        ({"samples_trained": None}, "samples_trained must be a whole number"),
    ],
)
def test_a_broken_result_is_refused(run, change, words):
    whole = with_metrics(run, {"test": {"rmse": 1.5}})
    with pytest.raises(InputError, match=words) as refused:
        outcome(dataclasses.replace(whole, result={**whole.result, **change}))
    assert str(run.path) in str(refused.value)
