"""Metrics against scikit-learn's, and against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from gradlex import InputError
from gradlex.tasks import Custom, MultiLabel, Regression, Segmentation, Tokens


def batches(outputs, targets, size=7):
    return [(outputs[at : at + size], targets[at : at + size]) for at in range(0, len(targets), size)]


@pytest.mark.parametrize("width", [1, 3])
def test_regression_is_measured_in_the_targets_own_units(width):
    rng = torch.Generator().manual_seed(0)
    y = 1e5 + 100 * torch.randn(40, width, generator=rng, dtype=torch.float64)
    outputs = torch.randn(40, width, generator=rng)
    targets = y[:, 0] if width == 1 else y
    task = Regression().fitted(outputs, [targets[:25], targets[25:]])
    assert task.mean == pytest.approx(y.mean(0).tolist())
    assert task.scale == pytest.approx(y.std(0, correction=0).tolist())
    found, told = task.metrics(batches(outputs, targets)), task.predict(outputs).reshape(40, width)
    assert torch.allclose(told, outputs.double() * y.std(0, correction=0) + y.mean(0))
    assert found["r2"] == pytest.approx(reference.r2_score(y, told))
    assert found["mae"] == pytest.approx(reference.mean_absolute_error(y, told))
    assert found["rmse"] == pytest.approx(reference.mean_squared_error(y, told) ** 0.5)


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_r2_of_targets_that_do_not_vary_is_finite(answer):
    y = torch.full((5,), 3.0)
    task = Regression().fitted(None, [y])
    assert task.scale == (1.0,)
    outputs = torch.full((5, 1), answer)
    assert task.metrics([(outputs, y)])["r2"] == reference.r2_score(y, task.predict(outputs))


@pytest.mark.parametrize(
    ("criterion", "loss"), [("mse", (4 + 0.25) / 2), ("l1", 1.25), ("huber", (1.5 + 0.125) / 2)]
)
def test_each_criterion_is_what_it_says(criterion, loss):
    task = Regression(criterion=criterion, case_error="loss", mean=0, scale=1)
    outputs, targets = torch.tensor([[2.0], [0.5]]), torch.zeros(2)
    assert task.loss(outputs, targets).item() == pytest.approx(loss)
    assert task.errors(outputs, targets).mean().item() == pytest.approx(loss)


def test_multi_label_metrics_are_scikit_learns():
    rng = np.random.default_rng(0)
    score, truth = rng.normal(size=(60, 4)).round(1), rng.integers(0, 2, (60, 4))
    found = MultiLabel().metrics(batches(torch.tensor(score), torch.tensor(truth)))
    assert found["f1"] == pytest.approx(reference.f1_score(truth, score > 0, average="macro"))
    assert found["map"] == pytest.approx(reference.average_precision_score(truth, score, average="macro"))
    assert found["exact"] == pytest.approx(reference.accuracy_score(truth, score > 0))
    assert found["loss"] == pytest.approx(
        torch.nn.functional.binary_cross_entropy_with_logits(
            torch.tensor(score), torch.tensor(truth).double()
        ).item()
    )


def test_miou_counts_the_whole_set_and_ignores_what_is_unknown():
    rng = torch.Generator().manual_seed(0)
    truth = torch.randint(0, 3, (9, 4, 4), generator=rng)
    truth[:, 0] = 255
    outputs = torch.randn(9, 3, 4, 4, generator=rng)
    found = Segmentation(ignore_index=255).metrics(batches(outputs, truth, 2))
    seen = truth != 255
    told = outputs.argmax(1)[seen]
    assert found["miou"] == pytest.approx(reference.jaccard_score(truth[seen], told, average="macro"))
    assert found["pixel_accuracy"] == pytest.approx(reference.accuracy_score(truth[seen], told))


@pytest.mark.parametrize(
    ("task", "errors"),
    [
        (Segmentation(), [1 - (1 / 3 + 2 / 3) / 2, 1 - (0.75 + 0) / 2]),
        (Segmentation(case_error="pixels"), [0.5, 0.25]),
    ],
)
def test_an_image_is_a_case(task, errors):
    truth = torch.tensor([[[0, 0], [1, 1]], [[0, 0], [0, 0]]])
    told = torch.tensor([[[0, 1], [1, 0]], [[0, 0], [0, 1]]])
    if task.case_error == "iou":
        told[0] = torch.tensor([[0, 1], [1, 1]])
        errors = [1 - (1 / 2 + 2 / 3) / 2, errors[1]]
    outputs = torch.nn.functional.one_hot(told, 2).permute(0, 3, 1, 2).float()
    assert task.errors(outputs, truth).tolist() == pytest.approx(errors)


@pytest.mark.parametrize(("case_error", "expected"), [("share", [0.5, 0.0]), ("exact", [1.0, 0.0])])
def test_a_sequence_is_a_case_and_padding_counts_for_nothing(case_error, expected):
    targets = torch.tensor([[0, 1, -100], [1, -100, -100]])
    outputs = torch.nn.functional.one_hot(torch.tensor([[0, 0, 1], [1, 0, 0]]), 2).float()
    task = Tokens(case_error=case_error)
    assert task.errors(outputs, targets).tolist() == expected
    found = task.metrics([(outputs, targets)])
    assert found["token_accuracy"] == pytest.approx(2 / 3)
    assert found["exact"] == 0.5
    assert found["perplexity"] == pytest.approx(np.exp(found["loss"]))


def distance(outputs, targets):
    return (outputs[:, 0] - targets).abs()


def mean(outputs, targets):
    return distance(outputs, targets).mean()


def worst(outputs, targets):
    return distance(outputs, targets).max()


def test_a_custom_task_is_three_functions():
    outputs, targets = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([1.0, 1.0, 1.0])
    task = Custom(
        loss=mean, errors=distance, metrics={"worst": worst, "mean": mean}, lower_is_better=["worst", "mean"]
    )
    assert task.metrics(batches(outputs, targets, 2)) == pytest.approx({"worst": 4.0, "mean": 5 / 3})
    assert [measure.name for measure in task.measures] == ["worst", "mean"]
    assert not task.measures[0].higher_is_better
    assert task.selection == "epsilon-lexicase"
    assert Custom(loss=mean, errors=distance, metrics=worst).measures[0].name == "worst"
    assert Custom(loss=mean, errors=distance).metrics(batches(outputs, targets, 2)) == {
        "error": pytest.approx(5 / 3)
    }
    with pytest.raises(InputError, match="errors must be a function"):
        Custom(loss=mean, errors=None)
    with pytest.raises(InputError, match=r"unknown metric 'wurst'.*'worst'"):
        Custom(loss=mean, errors=distance, metrics=worst, lower_is_better=["wurst"])
