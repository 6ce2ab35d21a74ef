"""Losses, errors and metrics against torch's and scikit-learn's, and against numbers worked out by hand."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as reference
from torch import Tensor, nn

from gradlex import InputError
from gradlex.tasks import Classification, Custom, Measure, MultiLabel, Regression, Task
from gradlex.tasks.classification import ClassTable


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def batches(outputs: Tensor, targets: Tensor, size: int = 7) -> list[tuple[Tensor, Tensor]]:
    return list(zip(outputs.split(size), targets.split(size), strict=True))


LABELS = torch.arange(60) % 3
CASES = {
    "classification": (Classification(), numbers(60, 3), LABELS),
    "classification by loss": (Classification(case_error="loss"), numbers(60, 3), LABELS),
    "one output": (Classification(), numbers(60, 1), LABELS.clamp(max=1)),
    "one flat output": (Classification(), numbers(60), LABELS.clamp(max=1)),
    "multi-label": (MultiLabel(), numbers(60, 4), (numbers(60, 4, seed=1) > 0).long()),
    "multi-label, exact": (MultiLabel(case_error="exact"), numbers(60, 4), (numbers(60, 4, seed=1) > 0).long()),
    "regression": (Regression(), numbers(60, 1), 100 + 5 * numbers(60, seed=1)),
    "regression of two": (Regression(), numbers(60, 2), 100 + 5 * numbers(60, 2, seed=1)),
    "custom": (Custom(loss=F.mse_loss, errors=lambda o, t: (o - t).abs()), numbers(60), numbers(60, seed=1)),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Task, Tensor, Tensor]:
    task, outputs, targets = CASES[request.param]
    task.check(None, targets, outputs[:2])
    return task.fitted(outputs[:2], targets), outputs, targets


# What holds for every task


def test_errors_are_one_number_of_at_least_0_for_each_case(case) -> None:
    task, outputs, targets = case
    errors = task.errors(outputs, targets)
    assert errors.shape == (60,)
    assert (errors >= 0).all()
    assert task.graded == bool(((errors != 0) & (errors != 1)).any())


def test_a_network_that_answers_nan_has_failed_every_case(case) -> None:
    task, outputs, targets = case
    errors = task.errors(torch.full_like(outputs, math.nan), targets)
    assert ((errors == 1) | errors.isnan()).all()


def test_metrics_do_not_depend_on_how_the_set_is_cut(case) -> None:
    task, outputs, targets = case
    whole = task.metrics([(outputs, targets)])
    assert list(whole) == [measure.name for measure in task.measures]
    assert task.metrics(batches(outputs, targets)) == pytest.approx(whole, rel=1e-6)
    assert task.metrics([(outputs.flip(0), targets.flip(0))]) == pytest.approx(whole, rel=1e-6)


def test_the_loss_has_gradients_and_is_the_mean_over_the_batch(case) -> None:
    task, outputs, targets = case
    outputs = outputs.clone().requires_grad_()
    loss = task.loss(outputs, targets)
    loss.backward()
    assert outputs.grad.abs().sum() > 0
    halves = (task.loss(outputs[:30], targets[:30]) + task.loss(outputs[30:], targets[30:])) / 2
    assert loss.item() == pytest.approx(halves.item(), rel=1e-5)


def test_half_precision_outputs_give_losses_in_full_precision(case) -> None:
    task, outputs, targets = case
    if not isinstance(task, Custom):  # whose functions decide
        assert task.loss(outputs.bfloat16(), targets).dtype == torch.float32


# Classification


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2}, {"class_weights": [1, 2, 0.5]}])
def test_the_loss_of_classification_is_torchs_cross_entropy(options) -> None:
    outputs = numbers(60, 3)
    weight = torch.tensor(options["class_weights"]) if "class_weights" in options else None
    expected = F.cross_entropy(outputs, LABELS, weight, label_smoothing=options.get("label_smoothing", 0))
    assert torch.equal(Classification(**options).loss(outputs, LABELS.int()), expected)


def test_one_output_is_torchs_binary_cross_entropy() -> None:
    outputs, labels = numbers(60, 1), LABELS.clamp(max=1)
    expected = F.binary_cross_entropy_with_logits(outputs[:, 0], labels.float())
    torch.testing.assert_close(Classification().loss(outputs, labels), expected)
    assert torch.equal(Classification().predict(outputs), (outputs[:, 0] > 0).long())
    torch.testing.assert_close(Classification().probabilities(outputs)[:, 1], outputs[:, 0].sigmoid())


def test_classification_is_measured_as_by_scikit_learn() -> None:
    outputs = numbers(60, 3)
    task = Classification().fitted(outputs, LABELS)
    found, told = task.metrics(batches(outputs, LABELS)), task.predict(outputs)
    recall = reference.recall_score(LABELS, told, average=None)
    assert found["accuracy"] == reference.accuracy_score(LABELS, told)
    assert found["balanced_accuracy"] == pytest.approx(reference.balanced_accuracy_score(LABELS, told))
    assert found["worst_class_accuracy"] == recall.min()
    assert found["loss"] == pytest.approx(F.cross_entropy(outputs, LABELS).item())


def test_a_class_without_samples_does_not_count_in_the_mean_over_classes() -> None:
    outputs = torch.eye(4)[[0, 0, 1]]
    found = Classification().metrics([(outputs, torch.tensor([0, 0, 2]))])
    assert (found["balanced_accuracy"], found["worst_class_accuracy"]) == (0.5, 0.0)


@pytest.mark.parametrize("answer", [math.nan, math.inf])
def test_an_answer_that_is_not_finite_is_wrong(answer: float) -> None:
    outputs = torch.tensor([[answer, 0.0], [0.0, -math.inf]])
    assert Classification().errors(outputs, torch.tensor([0, 0])).tolist() == [1.0, 0.0]


def test_balanced_weights_give_all_classes_the_same_total() -> None:
    labels = torch.tensor([0, 0, 0, 1, 3, 3])
    task = Classification(class_weights="balanced").fitted(numbers(6, 4), labels)
    weights = torch.tensor(task.learned["class_weights"])
    totals = weights * torch.bincount(labels)
    assert weights[2] == 0
    assert totals[[0, 1, 3]].tolist() == pytest.approx([1.5, 1.5, 1.5])


def test_a_class_table_says_which_class_is_predicted_as_which() -> None:
    told, labels = torch.tensor([0, 0, 1, 2, 1, 1]), torch.tensor([0, 0, 1, 2, 2, 2])
    table = Classification(classes=4).class_table(told, labels)
    assert isinstance(table, ClassTable)
    assert (table.counts[:3, :3] == reference.confusion_matrix(labels, told)).all()
    assert table.recall[:3].tolist() == [1, 1, pytest.approx(1 / 3)]
    assert np.isnan(table.recall[3])
    assert table.mistakes(5) == [(2, 1, 2)]


# Multi-label


@pytest.mark.parametrize("labels", [1, 4])
def test_multi_label_is_measured_as_by_scikit_learn(labels: int) -> None:
    rng = np.random.default_rng(0)
    score, truth = rng.normal(size=(60, labels)).round(1), rng.integers(0, 2, (60, labels))
    found = MultiLabel().metrics(batches(torch.tensor(score), torch.tensor(truth)))
    each = [reference.f1_score(truth[:, label], score[:, label] > 0) for label in range(labels)]
    precisions = [reference.average_precision_score(truth[:, label], score[:, label]) for label in range(labels)]
    loss = F.binary_cross_entropy_with_logits(torch.tensor(score), torch.tensor(truth).double())
    assert found["f1"] == pytest.approx(np.mean(each))
    assert found["map"] == pytest.approx(np.mean(precisions))
    assert found["exact"] == pytest.approx(((score > 0) == truth).all(axis=1).mean())
    assert found["loss"] == pytest.approx(loss.item())


def test_labels_that_no_sample_has_do_not_count() -> None:
    outputs, targets = torch.tensor([[1.0, 1.0], [-1.0, 1.0]]), torch.tensor([[1, 0], [0, 0]])
    found = MultiLabel().metrics([(outputs, targets)])
    assert (found["f1"], found["map"]) == (1.0, 1.0)
    assert MultiLabel().metrics([(outputs, targets * 0)])["f1"] == 0.0


# Regression


@pytest.mark.parametrize("width", [1, 3])
def test_regression_is_measured_in_the_units_of_the_targets(width: int) -> None:
    y = 1e5 + 100 * numbers(40, width).double()
    outputs, targets = numbers(40, width, seed=1), y[:, 0] if width == 1 else y
    task = Regression().fitted(outputs, targets)
    assert task.mean == pytest.approx(y.mean(0).tolist())
    assert task.scale == pytest.approx(y.std(0, correction=0).tolist())
    found, told = task.metrics(batches(outputs, targets)), task.predict(outputs).reshape(40, width)
    torch.testing.assert_close(told, outputs.double() * y.std(0, correction=0) + y.mean(0))
    assert found["r2"] == pytest.approx(reference.r2_score(y, told))
    assert found["mae"] == pytest.approx(reference.mean_absolute_error(y, told))
    assert found["rmse"] == pytest.approx(reference.mean_squared_error(y, told) ** 0.5)


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_r2_of_targets_that_do_not_vary_is_finite(answer: float) -> None:
    y = torch.full((5,), 0.1, dtype=torch.float64)
    task = Regression().fitted(None, y)
    assert task.scale == (1.0,)
    outputs = torch.full((5, 1), answer)
    assert task.metrics([(outputs, y)])["r2"] == reference.r2_score(y, task.predict(outputs))


@pytest.mark.parametrize(("criterion", "loss"), [("mse", (4 + 0.25) / 2), ("l1", 1.25), ("huber", (1.5 + 0.125) / 2)])
def test_each_criterion_is_the_loss_of_its_name(criterion: str, loss: float) -> None:
    task = Regression(criterion=criterion, mean=0, scale=1)
    outputs, targets = torch.tensor([[2.0], [0.5]]), torch.zeros(2)
    assert task.loss(outputs, targets).item() == pytest.approx(loss)


# Tasks of one's own


def distance(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).abs()


def mean(outputs: Tensor, targets: Tensor) -> Tensor:
    return distance(outputs, targets).mean()


def worst(outputs: Tensor, targets: Tensor) -> Tensor:
    return distance(outputs, targets).max()


def test_a_custom_task_is_made_of_functions() -> None:
    outputs, targets = torch.tensor([[1.0], [2.0], [5.0]]), torch.ones(3)
    own = {"worst": worst, "mean": mean}
    task = Custom(loss=mean, errors=distance, metrics=own, lower_is_better=["worst"])
    assert task.metrics(batches(outputs, targets, 2)) == pytest.approx({"worst": 4.0, "mean": 5 / 3})
    assert task.measures == (Measure("worst", higher_is_better=False), Measure("mean"))
    assert Custom(loss=mean, errors=distance, metrics=worst).measures[0].name == "worst"
    default = Custom(loss=mean, errors=distance)
    assert default.metrics(batches(outputs, targets, 2)) == {"error": pytest.approx(5 / 3)}
    assert not default.measures[0].higher_is_better
    assert Custom(loss=mean, errors=distance, predict=torch.round).predict(outputs + 0.2).tolist() == outputs.tolist()


def far(outputs: Tensor, targets: Tensor) -> Tensor:
    return distance(outputs, targets) > 1


def far_as_numbers(outputs: Tensor, targets: Tensor) -> Tensor:
    return far(outputs, targets).float()


@pytest.mark.parametrize(
    ("errors", "graded", "selection"),
    [
        (far, None, "lexicase"),
        (far_as_numbers, None, "lexicase"),
        (distance, None, "epsilon-lexicase"),
        (far_as_numbers, True, "epsilon-lexicase"),
        (distance, False, "lexicase"),
    ],
)
def test_a_custom_task_with_errors_of_0_and_1_stays_with_lexicase(errors, graded, selection: str) -> None:
    outputs, targets = torch.tensor([[1.2], [9.0]]), torch.ones(50)
    task = Custom(loss=mean, errors=errors, graded=graded).fitted(outputs, targets)
    assert task.selection == selection
    assert task.graded == (selection == "epsilon-lexicase")
    assert task.errors(outputs, targets[:2]).is_floating_point()


def test_a_task_derived_from_task_needs_four_definitions() -> None:
    class Side(Task):
        measures = (Measure("accuracy"),)

        def loss(self, outputs, targets):
            return torch.relu(1 - outputs * targets).mean()

        def errors(self, outputs, targets):
            return (outputs * targets <= 0).float()

        def metrics(self, batches):
            return {"accuracy": 1 - torch.cat([self.errors(*batch) for batch in batches]).mean().item()}

    task, outputs, targets = Side(), torch.tensor([1.0, 2.0]), torch.tensor([1, -1])
    task.check(None, targets, outputs)
    assert task.fitted(outputs, targets) is task
    assert task.learned == {}
    assert task.selection == "epsilon-lexicase"
    assert task.predict(outputs) is outputs
    assert str(task) == "given"
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (Task,), {"measures": ()})()
    with pytest.raises(InputError, match=r"Side has no outputs\(targets\)"):
        task.outputs(targets)


@pytest.mark.parametrize(
    ("task", "selection"),
    [
        (Classification(), "lexicase"),
        (Classification(case_error="loss"), "epsilon-lexicase"),
        (MultiLabel(), "lexicase(on_all_fail=survive)"),
        (MultiLabel(case_error="exact"), "lexicase"),
        (Regression(), "epsilon-lexicase"),
    ],
)
def test_each_kind_of_error_has_the_selection_that_suits_it(task: Task, selection: str) -> None:
    assert task.selection == selection


@pytest.mark.parametrize(
    ("task", "targets", "outputs"),
    [
        (Classification(), torch.tensor([0, 4, 2]), 5),
        (Classification(classes=7), torch.tensor([0, 4, 2]), 7),
        (MultiLabel(), torch.zeros(3, 4), 4),
        (Regression(), torch.zeros(3), 1),
        (Regression(), torch.zeros(3, 2), 2),
    ],
)
def test_a_task_says_how_many_outputs_a_network_needs(task: Task, targets: Tensor, outputs: int) -> None:
    assert task.outputs(targets) == outputs
    task.check(None, targets, nn.Linear(1, outputs)(torch.zeros(2, 1)))


@dataclass
class Focal:
    """A loss that is neither a module nor a plain function."""

    gamma: float = 2.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        right = outputs.softmax(1).gather(1, targets[:, None])[:, 0]
        return (-((1 - right) ** self.gamma) * right.log()).mean()


def test_a_criterion_replaces_the_training_loss_alone() -> None:
    outputs = numbers(60, 3)
    task = Classification(criterion=Focal())
    assert torch.equal(task.loss(outputs, LABELS), Focal()(outputs, LABELS))
    assert task.metrics([(outputs, LABELS)]) == Classification().metrics([(outputs, LABELS)])
    two = Regression(criterion=nn.SmoothL1Loss(), mean=0, scale=1)
    assert torch.equal(two.loss(outputs[:, :1], outputs[:, 1]), F.smooth_l1_loss(outputs[:, 0], outputs[:, 1]))
    labels = (outputs > 0).long()
    assert torch.equal(MultiLabel(criterion=nn.MSELoss()).loss(outputs, labels), F.mse_loss(outputs, labels.float()))
