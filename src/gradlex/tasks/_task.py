"""Task: what is learnt. A loss for SubGD, an error per case for selection, metrics for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from gradlex.errors import InputError, refusing_as


@dataclass(frozen=True)
class Measure:
    """One metric of a task: how it is read and printed.

    Examples:
        >>> from gradlex.tasks import Measure, Regression
        >>> Measure("accuracy", fraction=True)
        Measure(name='accuracy', higher_is_better=True, fraction=True)
        >>> [measure.name for measure in Regression().measures]  # the first is the primary one
        ['r2', 'rmse', 'mae']
    """

    name: str
    higher_is_better: bool = True
    fraction: bool = False
    """Whether it lies between 0 and 1 and is printed in per cent."""


class Task(Protocol):
    """The views of a network's outputs that a run needs.

    A task may have more, all of it optional:

    - `selection`, the name of the method that it is selected by where the recipe leaves that open (lexicase);
    - `fitted(outputs, targets)`, the task with what it takes from the training part: `outputs` are a few of the
      network's, `targets` are all of the training part's in batches, read only where they are asked for;
    - `learnt`, a mapping of plain values that are stored with the run: the options that make the fitted task again;
    - `predict(outputs)`, the answers that a person would read: classes, or values in the units of the targets;
    - `probabilities(outputs)`, of each class: (samples, classes);
    - `class_table(predicted, targets)`, a `ClassTable`: how many samples of each class were taken for which;
    - `losses(outputs, targets)`, the (cases,) losses, where errors say only right or wrong;
    - `outputs(targets)`, how many outputs a network needs for these targets, where gradlex builds it.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> from gradlex.tasks import Measure
        >>> class Side:  # is the output on the right side of 0?
        ...     measures = (Measure("accuracy", fraction=True),)
        ...     graded = False
        ...     def check(self, inputs, targets, outputs):
        ...         if outputs.shape[1:] != (1,):
        ...             raise gradlex.InputError(f"outputs must be (samples, 1), got {tuple(outputs.shape)}.")
        ...     def loss(self, outputs, targets):
        ...         return torch.relu(1 - outputs[:, 0] * targets).mean()
        ...     def errors(self, outputs, targets):
        ...         return (outputs[:, 0] * targets <= 0).float()
        ...     def metrics(self, batches):
        ...         errors = torch.cat([self.errors(*batch) for batch in batches])
        ...         return {"accuracy": 1 - errors.mean().item()}
        >>> x = torch.linspace(-1, 1, 40).reshape(40, 1)
        >>> recipe = gradlex.Recipe(generations=2, batch_size=5)
        >>> run = gradlex.train(torch.nn.Linear(1, 1), (x, x[:, 0].sign()), recipe, task=Side())
        >>> list(run.train)
        ['accuracy']
    """

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The metrics that `metrics` returns; the first is the primary one."""
        ...

    @property
    def graded(self) -> bool:
        """Whether errors can be other than 0 (solved) and 1 (failed)."""
        ...

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Refuse (InputError) targets or outputs that this task cannot learn from.

        `inputs` and `outputs` are of a few samples; `targets` may be all of them.
        """
        ...

    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """The mean loss of a batch, to be descended."""
        ...

    def errors(self, outputs: Any, targets: Any) -> Tensor:
        """The (cases,) errors: lower is better, 0 is solved."""
        ...

    def metrics(self, batches: Iterable[tuple[Any, Any]]) -> dict[str, float]:
        """The metrics of a whole set, given as batches of outputs and targets, computed lazily."""
        ...


def check_samples(task: Task, inputs: Any, targets: Any, outputs: Any) -> None:
    """Refuse what the task cannot learn from; whatever else its check raises is refused by its name."""
    with refusing_as(part(task, "check")):
        task.check(inputs, targets, outputs)


def default_selection(task: Task) -> str:
    """The selection of a task whose recipe names none."""
    with refusing_as(part(task, "selection")):
        return str(getattr(task, "selection", "lexicase"))


def fitted(task: Task, outputs: Any, targets: Iterable[Tensor]) -> Task:
    """The task with what it takes from the training part."""
    with refusing_as(part(task, "fitted")):
        own = getattr(task, "fitted", None)
        found: Task = task if own is None else own(outputs, targets)
        return found


def learnt(task: Task) -> dict[str, Any]:
    """What a fitted task took from the training part, as options that make it again."""
    with refusing_as(part(task, "learnt")):
        found: Mapping[str, Any] = dict(getattr(task, "learnt", {}))
    try:
        json.dumps(found)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{part(task, 'learnt')} must hold plain values, which are stored with the run: {error}."
        ) from error
    return dict(found)


def predictions(task: Task, outputs: Any) -> Any:
    """The answers that a person would read: the task's, or the outputs themselves."""
    own = getattr(task, "predict", None)
    return outputs if own is None else own(outputs)


def graded_errors(task: Task, outputs: Any, targets: Any) -> Tensor:
    """How hard each case is: its loss where the task's errors say only right or wrong, otherwise its error."""
    own = getattr(task, "losses", None)
    found: Tensor = task.errors(outputs, targets) if own is None else own(outputs, targets)
    return found


def outputs_for(task: Task, targets: Tensor) -> int | None:
    """How many outputs a network needs for these targets; None where the task does not say."""
    with refusing_as(part(task, "outputs")):
        own = getattr(task, "outputs", None)
        return None if own is None else int(own(targets))


def part(task: object, name: str) -> str:
    """What a part of a task is called in messages."""
    return f"the task's {type(task).__name__}.{name}"
