"""Methods are compared by the primary measure of their task, whatever it is."""

from __future__ import annotations

import dataclasses

import pytest

from gradlex.errors import InputError
from gradlex.report import gather, verdict
from gradlex.report._claims import claims
from gradlex.report._comparison import comparison_tables
from gradlex.report._evidence import _arms
from gradlex.tasks import Measure

ERROR = Measure("mean absolute error", higher_is_better=False)
ARMS = {
    "sgd": [68.0, 67.5, 68.3],
    "sgd-matched": [71.0, 70.6, 71.4],
    "lexicase": [70.1, 69.5, 70.2],
    "average": [66.0, 65.6, 66.2],
}


@pytest.fixture
def evidence(experiment):
    """An experiment in regression: the same numbers, a thousandth of them, are errors."""
    found = gather(experiment("compare", ARMS))
    arms = tuple(
        dataclasses.replace(
            arm,
            runs={
                seed: dataclasses.replace(run, measure=ERROR, test=run.test / 1000, train=None)
                for seed, run in arm.runs.items()
            },
        )
        for arm in found.arms
    )
    return dataclasses.replace(found, arms=arms)


def test_a_lower_error_is_better(evidence):
    text = verdict(evidence, evidence.settings[0])
    assert "is significantly worse than SGD (+0.002, 95 % interval" in text
    assert "it is significantly better than SGD on equal samples at weight decay 0.0001 (-0.001067, " in text
    assert "the best supported against SGD on equal samples, average, is significantly better than" in text


def test_tables_are_titled_by_the_measure_and_say_its_direction(evidence):
    results, differences = comparison_tables(evidence, evidence.settings[0])
    assert results.columns[2:4] == ("test mean absolute error", "training mean absolute error")
    assert results.rows[0][2:4] == ("0.06793 ± 0.0004041", "-")
    assert "lower is better" in results.notes[0]
    assert differences.title == (
        "Difference in test mean absolute error from each baseline: resnet20 on cifar10.npz"
    )


def test_a_claim_agrees_where_the_error_is_lower(evidence):
    found = {claim.text.split(",")[0]: claim.agreement for claim in claims([evidence])}
    assert found == {
        "Lexicase (p = 4) better than SGD with 1/5 of the generations": -1,
        "Lexicase (p = 4) better than SGD on equal samples": 1,
    }


def test_runs_with_different_measures_are_refused(experiment):
    evidence = gather(experiment("compare", {"sgd": [68.0], "lexicase": [70.0]}))
    column = dataclasses.make_dataclass("Column", ["setting", "method", "title"], frozen=True)
    finished = [
        (column(arm.setting, arm.method, arm.title), dataclasses.replace(run, measure=measure))
        for arm, measure in zip(evidence.arms, (ERROR, Measure("accuracy")), strict=True)
        for run in arm.runs.values()
    ]
    with pytest.raises(InputError, match=r"reports accuracy and .* mean absolute error: they cannot be"):
        _arms("compare", finished)
