from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import gradlex
from gradlex import Record
from gradlex.callbacks.early_stopping import best_generation, out_of_patience
from gradlex.tasks import Measure

Make = Callable[..., Record]
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
    history: Callable[..., list[Record]], patience: int, stops_at: int | None
) -> None:
    records = history(0.1, 0.5, 0.4, 0.4, 0.6, 0.1, 0.1, 0.1)
    answers = [out_of_patience(records[:done], ACCURACY, patience) for done in range(1, 9)]
    stopped = next((done for done, answer in enumerate(answers, start=1) if answer), None)
    assert stopped == stops_at
    if stopped:
        assert answers[stopped - 1] == f"no better validation accuracy since generation {stopped - patience}"


def test_a_run_that_learns_nothing_more_stops_and_says_why() -> None:
    labels = torch.tensor([1] + [0] * 59)
    data = torch.randn(60, 4), labels
    recipe = gradlex.Recipe(epochs=50, batch_size=16, validation_fraction=0.2, patience=2)
    run = gradlex.train(torch.nn.Linear(4, 2), data, recipe)
    assert len(run.history) < 50
    assert "no better validation accuracy" in run.result["stopped"]
