from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import gradlex
from gradlex import InputError, Record
from gradlex.callbacks import EarlyStopping, LiveRun, best_generation
from gradlex.tasks import Measure

Make = Callable[..., Record]
Live = Callable[..., LiveRun]
ACCURACY, LOSS = Measure("accuracy", fraction=True), Measure("loss", higher_is_better=False)


@pytest.fixture
def history(record: Make) -> Callable[..., list[Record]]:
    def make(*values: float, name: str = "accuracy") -> list[Record]:
        return [record(n, metrics={"validation": {name: value}}) for n, value in enumerate(values, start=1)]

    return make


@pytest.mark.parametrize(
    ("values", "best"),
    [((0.1, 0.3, 0.2), 2), ((0.3, 0.3), 1), ((math.nan, 0.1), 2), ((math.nan, math.inf), 1), ((), None)],
)
def test_the_best_generation_is_the_first_of_the_highest(
    history: Callable[..., list[Record]], values: tuple[float, ...], best: int | None
) -> None:
    assert best_generation(history(*values), ACCURACY) == best


def test_of_a_loss_the_lowest_is_the_best(history: Callable[..., list[Record]]) -> None:
    assert best_generation(history(0.3, 0.1, 0.2, name="loss"), LOSS) == 2


def test_test_metrics_decide_nothing(record: Make) -> None:
    assert best_generation([record(1, metrics={"test": {"accuracy": 1.0}})], ACCURACY) is None


@pytest.mark.parametrize(("patience", "stops_at"), [(1, 3), (2, 4), (3, 8), (9, None)])
def test_it_stops_patience_generations_after_the_best(
    live: Live, history: Callable[..., list[Record]], patience: int, stops_at: int | None
) -> None:
    run, stopping = live(parts=("validation",)), EarlyStopping(patience)
    stopping.on_start(run)
    stopped = None
    for record in history(0.1, 0.5, 0.4, 0.4, 0.6, 0.1, 0.1, 0.1):
        run.history.append(record)
        answer = stopping.on_generation(record, run)
        if answer and stopped is None:
            stopped = record.generation
            assert answer == f"no better validation accuracy since generation {stopped - patience}"
    assert stopped == stops_at


def test_without_a_validation_part_the_error_says_how_to_get_one(live: Live) -> None:
    with pytest.raises(InputError, match="validation_fraction"):
        EarlyStopping(3).on_start(live(parts=("test",)))


@pytest.mark.parametrize("patience", [0, -1, 1.5, "3"])
def test_patience_is_a_count(patience: object) -> None:
    with pytest.raises(InputError, match="patience must be a whole number of at least 1"):
        EarlyStopping(patience)  # type: ignore[arg-type]


def test_a_run_that_learns_nothing_more_stops_and_says_why() -> None:
    labels = torch.tensor([1] + [0] * 59)
    data = torch.randn(60, 4), labels
    recipe = gradlex.Recipe(epochs=50, batch_size=16, validation_fraction=0.2, patience=2)
    run = gradlex.train(torch.nn.Linear(4, 2), data, recipe)
    assert len(run.history) < 50
    assert "no better validation accuracy" in run.result["stopped"]
