from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradlex import Generation, InputError, Record
from gradlex.selection import Choice

Make = Callable[..., Record]
MIGRATED = Path(__file__).parents[2] / "results" / "paper" / "lexicase" / "seed0" / "generations.jsonl"


def test_a_record_comes_back_from_its_line_unchanged(record: Make) -> None:
    whole = record(
        losses=(2.278508186340332, None),
        survivors=((3, (0, 1)), (7, (1,))),
        deciding=(341, 20),
        disagreement=0.1 + 0.2,
        metrics={"test": {"accuracy": 0.9166666666666666}},
    )
    assert Record.from_line(json.dumps(whole.to_line())) == whole
    assert Record.from_line(whole.to_line()) == whole


def test_a_line_leaves_out_what_was_not_recorded(record: Make) -> None:
    line = record(deciding=()).to_line()
    assert json.loads(json.dumps(line))["deciding"] == []  # recorded, and empty
    assert {"survivors", "disagreement", "metrics"}.isdisjoint(line)
    assert list(line)[:3] == ["generation", "lr", "losses"]


def test_a_metric_that_is_not_finite_is_null_in_json(record: Make) -> None:
    whole = record(metrics={"test": {"accuracy": 0.5, "loss": math.inf}})
    text = json.dumps(whole.to_line(), allow_nan=False)
    assert json.loads(text)["metrics"] == {"test": {"accuracy": 0.5, "loss": None}}
    assert math.isnan(Record.from_line(text).metrics["test"]["loss"])


@pytest.mark.skipif(not MIGRATED.exists(), reason="an installation without results")
def test_lines_of_stored_results_can_be_read_and_written_again() -> None:
    for text in MIGRATED.read_text().splitlines()[:20]:
        assert Record.from_line(text).to_line() == {
            name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()
        }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"losses": "many"}, "losses"),
        ({"chosen": None}, "chosen"),
        ({"color": 1}, "color"),
        ({"metrics": 3}, "metrics"),
    ],
)
def test_a_damaged_line_names_the_place(record: Make, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=f"damaged: {words}"):
        Record.from_line({**record().to_line(), **changes})
    with pytest.raises(InputError, match="damaged: Invalid JSON"):
        Record.from_line("{")


def test_the_record_of_a_generation_has_the_choice_and_both_times() -> None:
    choice = Choice(
        index=2,
        reason="average",
        cases_used=4,
        evaluated=96,
        weights={1: 0.25, 2: 0.75},
        survivors=((4, (1, 2)),),
        deciding=(17,),
        disagreement=0.125,
    )
    generation = Generation(
        number=3, choice=choice, losses=(0.5, None, 0.25), train_seconds=1.23456789, select_seconds=0.5
    )
    found = Record.of(generation, lr=0.05, metrics={"test": {"accuracy": 1.0}})
    assert found.generation == 3
    assert found.weights == (0.0, 0.25, 0.75)
    assert (found.chosen, found.losses[1], found.lr) == (2, None, 0.05)
    assert (found.cases_used, found.cases_evaluated, found.disagreement) == (4, 96, 0.125)
    assert (found.survivors, found.deciding) == (((4, (1, 2)),), (17,))
    assert (found.train_seconds, found.select_seconds) == (1.2346, 0.5)
    assert found.metrics == {"test": {"accuracy": 1.0}}
