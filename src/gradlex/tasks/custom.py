"""A task from two or three functions, for everything that has no class of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from gradlex._checks import check
from gradlex.errors import unknown_name
from gradlex.tasks.task import Loss, Measure, Task


class Custom(Task):
    """A loss, an error for each case, and metrics; each is a function of outputs and targets.

    Args:
        loss: The mean loss of a batch, one number.
        errors: The (cases,) errors: lower is better, 0 is solved. Booleans will do.
        metrics: A function of all outputs and targets of a set, which gives the metric its name; or several by name,
            of which the first is the primary one (default: `error`, the mean error).
        lower_is_better: The names of the metrics that are better when lower.
        graded: Whether errors can be other than 0 and 1, which makes epsilon-lexicase the default selection (default:
            whether the first training samples have other errors).
        predict: Turns outputs into what a person would read.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Custom
        >>> def far(outputs, targets):  # a case is solved within a distance of 1
        ...     return (outputs - targets).norm(dim=1) > 1
        >>> task = Custom(loss=torch.nn.functional.mse_loss, errors=far)
        >>> outputs, targets = torch.zeros(2, 2), torch.tensor([[0.5, 0.5], [3.0, 4.0]])
        >>> task.errors(outputs, targets)
        tensor([0., 1.])
        >>> task.fitted(outputs, targets).selection
        'lexicase'
    """

    def __init__(
        self,
        *,
        loss: Loss,
        errors: Loss,
        metrics: Loss | Mapping[str, Loss] | None = None,
        lower_is_better: Collection[str] = (),
        graded: bool | None = None,
        predict: Callable[[Any], Any] | None = None,
    ) -> None:
        named = metrics if isinstance(metrics, Mapping) else {getattr(metrics, "__name__", "metric"): metrics}
        self._metrics = {} if metrics is None else dict(named)
        for name, function in {"loss": loss, "errors": errors, **self._metrics}.items():
            check(name, Loss, function)
        for name in set(lower_is_better) - set(self._metrics):
            raise unknown_name("metric", name, self._metrics)
        self._loss, self._errors, self._predict = loss, errors, predict
        self._lower = frozenset(lower_is_better)
        self._graded = check("graded", bool | None, graded)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The given metrics, or the mean error."""
        found = [Measure(name, higher_is_better=name not in self._lower) for name in self._metrics]
        return tuple(found or [Measure("error", higher_is_better=False)])

    @property
    def graded(self) -> bool:
        """Whether errors can be other than 0 and 1."""
        return self._graded is not False

    def fitted(self, outputs: Any, targets: Any) -> Custom:
        """With `graded` as the errors of the first samples show it, unless it was given."""
        if self._graded is not None:
            return self
        count = len(tree_leaves(outputs)[0])
        errors = self._errors(outputs, tree_map(lambda tensor: tensor[:count], targets))
        task = copy.copy(self)
        task._graded = not bool(((errors == 0) | (errors == 1)).all())
        return task

    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """The given function's loss."""
        return self._loss(outputs, targets)

    def errors(self, outputs: Any, targets: Any) -> Tensor:
        """The given function's errors, booleans as numbers."""
        found = self._errors(outputs, targets)
        return found.float() if found.dtype == torch.bool else found

    def predict(self, outputs: Any) -> Any:
        """The given function's answers; the outputs without one."""
        return outputs if self._predict is None else self._predict(outputs)

    def metrics(self, batches: Iterable[tuple[Any, Any]]) -> dict[str, float]:
        """The metrics of the whole set at once."""
        if not self._metrics:
            errors = torch.cat([self.errors(*batch).cpu().double() for batch in batches])
            return {"error": float(errors.mean())}
        parts = [tree_map(lambda tensor: tensor.detach().cpu(), batch) for batch in batches]
        outputs, targets = tree_map(lambda *tensors: torch.cat(tensors), *parts)
        return {name: float(function(outputs, targets)) for name, function in self._metrics.items()}
