"""Task: a loss for SubGD, an error for each case of selection, metrics for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from gradlex._text import write
from gradlex.errors import InputError
from gradlex.recipe import GIVEN


@dataclass(frozen=True)
class Measure:
    """One metric of a task: how to read and print it.

    Examples:
        >>> from gradlex.tasks import Regression
        >>> [measure.name for measure in Regression().measures]  # the first is the primary one
        ['r2', 'rmse', 'mae']
    """

    name: str
    higher_is_better: bool = True
    fraction: bool = False
    """Whether it lies between 0 and 1 and is printed as a percentage."""


class Task(ABC):
    """What a network learns. A task of your own derives from this class and defines `measures`, `loss`, `errors` and
    `metrics`; everything else has a default. Optional: `probabilities(outputs)`, (samples, classes), and
    `class_table(predicted, targets)`, a `ClassTable`.

    `str(task)` is the text that makes the task again, or "given" if there is none.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Measure, Task
        >>> class Side(Task):  # is the output on the right side of 0?
        ...     measures = (Measure("accuracy", fraction=True),)
        ...     graded = False
        ...     def loss(self, outputs, targets):
        ...         return torch.relu(1 - outputs[:, 0] * targets).mean()
        ...     def errors(self, outputs, targets):
        ...         return (outputs[:, 0] * targets <= 0).float()
        ...     def metrics(self, batches):
        ...         errors = torch.cat([self.errors(*batch) for batch in batches])
        ...         return {"accuracy": 1 - errors.mean().item()}
        >>> Side().metrics([(torch.tensor([[2.0], [3.0]]), torch.tensor([1, -1]))])
        {'accuracy': 0.5}
        >>> Side().selection
        'lexicase'
    """

    @property
    @abstractmethod
    def measures(self) -> tuple[Measure, ...]:
        """The metrics that `metrics` returns; the first is the primary one."""

    @abstractmethod
    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """The mean loss of a batch, which training minimizes."""

    @abstractmethod
    def errors(self, outputs: Any, targets: Any) -> Tensor:
        """The (cases,) errors: lower is better, 0 is solved."""

    @abstractmethod
    def metrics(self, batches: Iterable[tuple[Any, Any]]) -> dict[str, float]:
        """The metrics of a whole set, given as batches of outputs and targets."""

    @property
    def graded(self) -> bool:
        """Whether errors can be other than 0 (solved) and 1 (failed)."""
        return True

    @property
    def selection(self) -> str:
        """The selection method for a recipe that names none."""
        return "epsilon-lexicase" if self.graded else "lexicase"

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:  # noqa: B027
        """Raise InputError for targets or outputs that this task can't learn from.

        `inputs` and `outputs` belong to a few samples; `targets` are all targets of a part.
        """

    def outputs(self, targets: Any) -> int:
        """The number of outputs that a network needs for these targets."""
        raise InputError(f"{type(self).__name__} has no outputs(targets): define it, or give the model as a module.")

    def fitted(self, outputs: Any, targets: Any) -> Task:
        """The task with what it learns from the training part: outputs for its first samples, and all targets."""
        return self

    @property
    def learned(self) -> dict[str, Any]:
        """What `fitted` learned, which is stored with the run: plain values of fields (of a dataclass)."""
        return {}

    def predict(self, outputs: Any) -> Any:
        """The answers that a person would read: class numbers, or values in the units of the targets."""
        return outputs

    _name: ClassVar[str]

    def __str__(self) -> str:
        if "_name" not in vars(type(self)):
            return GIVEN
        options = {name: v for name, v in vars(self).items() if v != getattr(type(self), name)}
        return GIVEN if any(map(callable, options.values())) else write(self._name, options)


def _several(given: Any) -> Any:
    """A list or an array as a tuple, and one number as a tuple of it."""
    given = given.tolist() if hasattr(given, "tolist") else given
    return tuple(given) if isinstance(given, list) else (given,) if isinstance(given, int | float) else given


Loss: TypeAlias = Annotated[Callable[[Any, Any], Tensor], "a function"]
"""Takes outputs and targets, and returns one number."""
Numbers: TypeAlias = Annotated[tuple[float, ...], Field(min_length=1), BeforeValidator(_several), "numbers"]


def full(outputs: Tensor) -> Tensor:
    """Outputs in at least float32: a loss of half-precision outputs is computed as autocast would."""
    return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs


def shown(given: Any) -> str:
    """The type and shape of something, for a message."""
    tensor = isinstance(given, Tensor)
    return f"{given.dtype} of shape {tuple(given.shape)}" if tensor else type(given).__name__


def check_finite(targets: Tensor) -> None:
    """Raise an error for targets that hold NaN or infinity."""
    finite = torch.isfinite(targets.reshape(len(targets), -1)).all(dim=1)
    if not finite.all():
        wrong = (~finite).nonzero().flatten()
        others = f" ({len(wrong)} are)" if len(wrong) > 1 else ""
        raise InputError(
            f"the target of sample {int(wrong[0])} is NaN or infinite{others}: correct such samples, or leave them out."
        )


def plain_options(task: Any, *names: str) -> dict[str, Any]:
    """The options of a task that are set, with tuples as JSON's lists."""
    values = ((name, getattr(task, name)) for name in names)
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values if v is not None}
