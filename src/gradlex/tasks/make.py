"""From a name, a loss or an object to a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from torch import Tensor, nn

from gradlex._text import bind, parse
from gradlex.errors import InputError
from gradlex.recipe import GIVEN
from gradlex.tasks.classification import Classification
from gradlex.tasks.multi_label import MultiLabel
from gradlex.tasks.regression import Regression
from gradlex.tasks.task import Loss, Task, shown

TASKS: Mapping[str, Callable[..., Task]] = {
    "classification": Classification,
    "multi-label": MultiLabel,
    "regression": Regression,
}

_CRITERIA: Mapping[type, Any] = {nn.MSELoss: "mse", nn.L1Loss: "l1", nn.HuberLoss: "huber"}


def make_task(
    given: str | Loss | Task | None,
    targets: Any = None,
    *,
    learned: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Task:
    """The task that a user means.

    Args:
        given: A name in `TASKS`, with options as in "classification(case_error=loss)", or "module:Class"; a loss,
            such as `nn.CrossEntropyLoss()`, or a function of outputs and targets; a task; or None, to infer it.
        targets: Training targets, (samples, ...).
        learned: What a stored run's task learned (`Task.learned`): the result is the fitted task.
        name: The name of a stored run's task, if a loss is given without targets.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import make_task
        >>> make_task("regression(criterion=huber)").criterion
        'huber'
        >>> make_task(torch.nn.CrossEntropyLoss(label_smoothing=0.1), torch.tensor([0, 2, 1])).label_smoothing
        0.1
    """
    given = infer_task(targets) if given is None else given
    if isinstance(given, type) or not (isinstance(given, str | Task) or callable(given)):
        raise InputError(
            f"the task must be text, a loss or an object of a class derived from gradlex.tasks.Task, got {given!r:.80}."
        )
    task = _from_text(given) if isinstance(given, str) else given
    task = task if isinstance(task, Task) else _from_loss(task, targets, name)
    return replace(cast(Any, task), **learned) if learned else task


def infer_task(targets: Any) -> str:
    """The name of the task that fits these targets; InputError if several do, or none.

    As in scikit-learn's `type_of_target`, whole numbers are classes also where they are stored as floats.

    Examples:
        >>> import torch
        >>> from gradlex.tasks.make import infer_task
        >>> infer_task(torch.tensor([0, 2, 1])), infer_task(torch.tensor([0.1, 2.5, 1.0]))
        ('classification', 'regression')
        >>> infer_task(torch.tensor([[0, 1], [1, 1]]))
        'multi-label'
    """
    cure = "name the task, such as task='regression'"
    if isinstance(targets, Tensor) and targets.ndim in (1, 2) and not targets.is_complex():
        if targets.is_floating_point() and bool((targets != targets.round()).any()):
            return "regression"
        if targets.ndim == 1:
            return "classification"
        if targets.shape[1] == 1:
            cure = "give y[:, 0] for classification, or task='regression'"
        elif bool(((targets == 0) | (targets == 1)).all()):
            if bool((targets.sum(dim=1) != 1).any()):
                return "multi-label"
            cure = "each row has a single 1: give y.argmax(1) for classification, or task='multi-label'"
    raise InputError(f"no task can be inferred from targets that are {shown(targets)}: {cure}.")


def _from_text(text: str) -> Task:
    if parse(text)[0] == GIVEN:
        raise InputError("the task was an object, which isn't stored: give it again as task=.")
    task = bind("task", text, TASKS)()
    if not isinstance(task, Task):
        raise InputError(f"task {text!r} must make a gradlex.tasks.Task, got {task!r:.80}.")
    return task


def _from_loss(loss: Any, targets: Any, name: str | None) -> Task:
    """The task with this loss; torch's usual losses are options of a task, so that a run folder can store them."""
    if getattr(loss, "reduction", "mean") != "mean":
        raise InputError(f"the loss must be a mean over the batch, got {loss}: set reduction='mean'.")
    kind = type(loss)  # a class derived from one of these computes something else
    if kind is nn.CrossEntropyLoss and loss.ignore_index == -100:
        return Classification(label_smoothing=loss.label_smoothing, class_weights=loss.weight)
    if kind in _CRITERIA:
        return Regression(criterion=_CRITERIA[kind], delta=getattr(loss, "delta", 1.0))
    if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss):
        return Classification(criterion=loss)
    if kind is nn.BCEWithLogitsLoss and loss.weight is None and loss.pos_weight is None:
        return MultiLabel() if targets.ndim == 2 else make_task(None, targets)
    return TASKS[name or infer_task(targets)](criterion=loss)
