"""From what a user gives to a task; messages for targets and outputs that don't fit."""

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from gradlex import InputError
from gradlex.tasks import TASKS, Classification, Custom, MultiLabel, Regression, Task, make_task
from gradlex.tasks.make import infer_task

LABELS = torch.tensor([0, 2, 1, 2])
NUMBERS = torch.tensor([0.5, 2.0, 1.0, 2.0])
ROWS = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]])


@pytest.fixture
def mycode(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the user's."""
    module = ModuleType("mycode")
    module.Own = type("Own", (Classification,), {"__module__": "mycode"})
    module.make = lambda *, case_error="correct": Classification(case_error=case_error)
    module.number = 3
    monkeypatch.setitem(sys.modules, "mycode", module)
    return module


@pytest.mark.parametrize(
    ("targets", "name"),
    [
        (LABELS, "classification"),
        (LABELS.float(), "classification"),
        (LABELS > 0, "classification"),
        (NUMBERS, "regression"),
        (NUMBERS[:, None], "regression"),
        (torch.stack([NUMBERS, NUMBERS], dim=1), "regression"),
        (ROWS, "multi-label"),
        (ROWS.double(), "multi-label"),
    ],
)
def test_the_task_is_inferred_from_the_targets(targets: Tensor, name: str) -> None:
    assert infer_task(targets) == name
    assert isinstance(make_task(None, targets), TASKS[name])


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (LABELS[:, None], r"torch.int64 of shape \(4, 1\): give y\[:, 0\] for classification"),
        (torch.eye(3), r"a single 1: give y.argmax\(1\)"),
        (torch.tensor([[1, 2], [3, 4]]), "name the task"),
        (torch.zeros(2, 3, 4), "name the task"),
        ({"a": LABELS}, "targets that are dict: name the task"),
        (None, "NoneType"),
    ],
)
def test_ambiguous_targets_raise_an_error_with_the_cure(targets, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_task(None, targets)


@pytest.mark.parametrize(
    "text",
    [
        *TASKS,
        "classification(case_error=loss, label_smoothing=0.1)",
        "classification(class_weights=(1.0, 2.0, 3.0))",
        "classification(class_weights=balanced)",
        "multi-label(case_error=exact)",
        "regression(criterion=huber, delta=2.0)",
        "regression(mean=(0.0,), scale=(2.0,))",
    ],
)
def test_the_text_of_a_task_makes_it_again(text: str) -> None:
    assert str(make_task(text)) == text
    assert make_task(str(make_task(text))) == make_task(text)


def test_lists_in_a_text_are_as_good_as_tuples() -> None:
    assert make_task("regression(mean=0, scale=[2])") == Regression(mean=(0.0,), scale=(2.0,))


@pytest.mark.parametrize(
    ("task", "targets", "outputs"),
    [
        (Classification(class_weights="balanced"), LABELS, torch.zeros(2, 3)),
        (Regression(criterion="l1"), NUMBERS, torch.zeros(2, 1)),
        (MultiLabel(), ROWS, torch.zeros(2, 3)),
    ],
)
def test_what_a_task_has_learned_makes_the_fitted_task_again(task: Task, targets: Tensor, outputs: Tensor) -> None:
    fitted = task.fitted(outputs, targets)
    assert make_task(str(task), learned=fitted.learned) == fitted
    assert make_task(task, learned=fitted.learned) == fitted
    assert fitted.fitted(outputs, targets[:2]) == fitted


@pytest.mark.parametrize(
    ("loss", "targets", "text"),
    [
        (nn.CrossEntropyLoss(), LABELS, "classification"),
        (nn.CrossEntropyLoss(label_smoothing=0.1), LABELS, "classification(label_smoothing=0.1)"),
        (nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5])), LABELS, "classification(class_weights=(1.0, 2.0, 0.5))"),
        (nn.BCEWithLogitsLoss(), ROWS, "multi-label"),
        (nn.MSELoss(), LABELS, "regression"),
        (nn.L1Loss(), NUMBERS, "regression(criterion=l1)"),
        (nn.HuberLoss(delta=0.5), NUMBERS, "regression(criterion=huber, delta=0.5)"),
        (nn.NLLLoss(), LABELS, "given"),
        (nn.MultiMarginLoss(), LABELS, "given"),
        (nn.BCEWithLogitsLoss(pos_weight=torch.ones(3)), ROWS, "given"),
        (nn.SmoothL1Loss(), NUMBERS, "given"),
    ],
)
def test_a_loss_of_torch_is_the_task_with_that_loss(loss: nn.Module, targets: Tensor, text: str) -> None:
    task = make_task(loss, targets)
    assert str(task) == text
    outputs = torch.randn(4, 1 if isinstance(task, Regression) else 3, generator=torch.Generator().manual_seed(0))
    if isinstance(task, Regression):
        task = make_task(task, learned={"mean": [0.0], "scale": [1.0]})
        expected = loss(outputs[:, 0], targets.float())
    else:
        expected = loss(outputs, targets.float() if targets is ROWS else targets)
    torch.testing.assert_close(task.loss(outputs, targets), expected)


def test_a_loss_class_of_ones_own_is_not_taken_for_the_one_it_derives_from() -> None:
    class Doubled(nn.CrossEntropyLoss):
        def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return 2 * super().forward(outputs, targets)

    outputs = torch.randn(4, 3)
    assert torch.equal(make_task(Doubled(), LABELS).loss(outputs, LABELS), Doubled()(outputs, LABELS))


def test_a_text_can_name_a_class_or_a_factory(mycode: ModuleType) -> None:
    own = make_task("mycode:Own(case_error=loss)")
    assert isinstance(own, mycode.Own)
    assert (own.graded, str(own)) == (True, "given")
    assert make_task("mycode:make(case_error=loss)") == Classification(case_error="loss")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("clasification", r"unknown task 'clasification'. Did you mean 'classification'\? Known: class"),
        ("tokens", "unknown task 'tokens'"),
        ("classification(loss=1)", "task 'classification' has no option 'loss': it takes case_error"),
        ("classification(case_error=los)", r"case_error must be 'correct' or 'loss', got 'los'. Did you mean 'loss'"),
        ("classification(label_smoothing=1)", "label_smoothing must be a number of at least 0 and below 1, got 1"),
        ("classification(class_weights=(1, -1))", "class_weights must be at least 0, and not all 0"),
        ("classification(class_weights=rare)", "class_weights must be numbers or 'balanced', got 'rare'"),
        ("classification(class_weights=(1, 1e999))", "class_weights must be"),
        ("classification(classes=0)", "classes must be a whole number of at least 1, got 0"),
        ("classification(criterion=3)", "criterion must be a function, got 3"),
        ("multi-label(case_error=none)", "case_error must be 'share' or 'exact', got None"),
        ("multi-label(criterion=focal)", "criterion must be a function, got 'focal'"),
        ("regression(criterion=l2)", r"criterion must be 'mse', 'l1', 'huber' or a function, got 'l2'"),
        ("regression(delta=0)", "delta must be a number above 0"),
        ("regression(mean=1)", "mean and scale must be equally long"),
        ("regression(mean=(1, 2), scale=(1, 0))", "scale above 0"),
        ("regression(mean=(), scale=())", "mean must be numbers, got"),
        ("given", "the task was an object, which isn't stored: give it again"),
        ("mycode:number", "must name a class or a function, got 3"),
        ("mycode:nothing", "has no 'nothing'"),
        (Classification, "the task must be text, a loss or an object of a class derived from gradlex.tasks.Task"),
        (3, "gradlex.tasks.Task, got 3"),
        ("torch.nn:MSELoss", r"'torch.nn:MSELoss' must make a gradlex.tasks.Task, got MSELoss\(\)"),
        (nn.MSELoss(reduction="sum"), "set reduction='mean'"),
    ],
)
def test_a_bad_task_raises_an_error_with_the_cure(mycode: ModuleType, given: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_task(given, LABELS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"errors": None}, "errors must be a function, got None"),
        ({"metrics": {"share": 3}}, "share must be a function, got 3"),
        ({"lower_is_better": ["wurst"]}, r"unknown metric 'wurst'. Did you mean 'worst'"),
        ({"graded": "no"}, "graded must be True or False, got 'no'"),
    ],
)
def test_bad_options_of_a_custom_task_raise_an_error(options, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Custom(**{"loss": max, "errors": max, "metrics": {"worst": max}, **options})


NAN = float("nan")


@pytest.mark.parametrize(
    ("task", "targets", "outputs", "words"),
    [
        (Classification(), LABELS[:, None], (2, 3), r"int64 of shape \(4, 1\): give y\[:, 0\]"),
        (Classification(), ["a", "b"], (2, 3), "whole numbers from 0, one per sample, got list"),
        (Classification(), NUMBERS, (2, 3), "got 0.5: number the classes from 0"),
        (Classification(), torch.tensor([0.0, NAN, NAN]), (2, 3), r"target of sample 1 is NaN or infinite \(2 are\)"),
        (Classification(), LABELS - 1, (2, 3), "got -1: number the classes from 0"),
        (Classification(), LABELS + 1, (2, 3), r"number the classes from 0 \(labels - 1\), or give its last layer 4"),
        (Classification(), LABELS, (2, 1), "the model has 1 outputs, the labels go from 0 to 2"),
        (Classification(), LABELS, (2, 3, 4), r"outputs \(samples, classes\), got torch.float32 of shape \(2, 3, 4\)"),
        (Classification(classes=3), LABELS, (2, 5), "outputs for 5 classes: give its last layer 3"),
        (Classification(classes=3), LABELS + 1, (2, 3), r"go up to 3, but the task has 3 classes, 0 to 2: leave out"),
        (Classification(class_weights=[1, 2]), LABELS, (2, 3), "class_weights has 2 weights for 3 classes"),
        (MultiLabel(), LABELS, (2, 3), r"targets \(samples, labels\) of 0 and 1, got torch.int64 of shape \(4,\)"),
        (MultiLabel(), ROWS * 2, (2, 3), "needs targets of 0 and 1, got 2: name another task"),
        (MultiLabel(), ROWS, (2, 4), "multi-label needs outputs .samples, 3."),
        (Regression(), LABELS > 0, (2, 1), "of numbers, got torch.bool"),
        (Regression(), torch.tensor([1.0, NAN]), (2, 1), "target of sample 1 is NaN or infinite: correct such samples"),
        (Regression(), NUMBERS, (2, 3), "regression needs outputs .samples, 1."),
        (Regression(mean=[1, 2], scale=[1, 1]), torch.zeros(4, 3), (2, 3), "hold 2 numbers, the targets 3 a sample"),
    ],
)
def test_targets_and_outputs_that_do_not_fit_raise_an_error(task: Task, targets, outputs, words: str) -> None:
    with pytest.raises(InputError, match=words):
        task.check(None, targets, torch.zeros(outputs))


def test_the_usual_loss_of_two_classes_takes_a_column_of_targets() -> None:
    targets = torch.tensor([[0.0], [1.0], [1.0]])
    assert isinstance(make_task(nn.BCEWithLogitsLoss(), targets), MultiLabel)
    assert isinstance(make_task(nn.BCEWithLogitsLoss(), targets[:, 0]), Classification)
