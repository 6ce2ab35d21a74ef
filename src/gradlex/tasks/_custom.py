"""A task from three functions, for everything that has no class of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from gradlex.errors import InputError, unknown_name
from gradlex.tasks._task import Measure

Function: TypeAlias = Callable[[Any, Any], Any]
"""Takes outputs and targets."""


class Custom:
    """A loss, an error per case and metrics, each a function of outputs and targets.

    With several workers the functions must be importable: defined in a module, not in a notebook or as a lambda.

    Args:
        loss: The mean loss of a batch, one number.
        errors: The (cases,) errors: lower is better, 0 is solved.
        metrics: A function of all outputs and targets of a set, whose name the metric gets; or several by name, the
            first being the primary one (default: `error`, the mean error).
        lower_is_better: The names of the metrics that are better when lower.
        graded: Whether errors can be other than 0 and 1.
        selection: Where the recipe names none (default: epsilon-lexicase for graded errors, otherwise lexicase).
        check: Refuses (InputError) inputs, targets or outputs that do not fit.
        predict: Makes of outputs what a person would read.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Custom
        >>> def far(outputs, targets):  # a case is solved within a distance of 1
        ...     return ((outputs - targets).norm(dim=1) > 1).float()
        >>> task = Custom(loss=torch.nn.functional.mse_loss, errors=far, graded=False)
        >>> task.errors(torch.zeros(2, 2), torch.tensor([[0.5, 0.5], [3.0, 4.0]]))
        tensor([0., 1.])
        >>> task.selection
        'lexicase'
    """

    def __init__(
        self,
        *,
        loss: Function,
        errors: Function,
        metrics: Function | Mapping[str, Function] | None = None,
        lower_is_better: Collection[str] = (),
        graded: bool = True,
        selection: str | None = None,
        check: Callable[[Any, Any, Any], None] | None = None,
        predict: Callable[[Any], Any] | None = None,
    ) -> None:
        self._metrics: dict[str, Function] = {}
        if isinstance(metrics, Mapping):
            self._metrics = dict(metrics)
        elif metrics is not None:
            self._metrics = {getattr(metrics, "__name__", "metric"): metrics}
        functions = {"loss": loss, "errors": errors, "check": check, "predict": predict, **self._metrics}
        for name, function in functions.items():
            if not callable(function) and (function is not None or name not in ("check", "predict")):
                raise InputError(f"{name} must be a function, got {function!r:.80}.")
        for name in lower_is_better:
            if name not in self._metrics:
                raise unknown_name("metric", name, self._metrics)
        self._loss, self._errors, self._check, self._predict = loss, errors, check, predict
        self.graded = graded
        self.selection = selection or ("epsilon-lexicase" if graded else "lexicase")
        self.measures = tuple(
            Measure(name=name, higher_is_better=name not in lower_is_better) for name in self._metrics
        ) or (Measure(name="error", higher_is_better=False),)

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """What the given function refuses."""
        if self._check is not None:
            self._check(inputs, targets, outputs)

    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """The given function's."""
        found: Tensor = self._loss(outputs, targets)
        return found

    def errors(self, outputs: Any, targets: Any) -> Tensor:
        """The given function's."""
        found: Tensor = self._errors(outputs, targets)
        return found

    def predict(self, outputs: Any) -> Any:
        """What the given function makes of outputs; without one the outputs."""
        return outputs if self._predict is None else self._predict(outputs)

    def metrics(self, batches: Iterable[tuple[Any, Any]]) -> dict[str, float]:
        """Of the whole set at once; the mean error is summed batch by batch."""
        if not self._metrics:
            total, samples = 0.0, 0
            for outputs, targets in batches:
                errors = self.errors(outputs, targets)
                total, samples = total + float(errors.cpu().double().sum()), samples + len(errors)
            return {"error": total / samples}
        parts = [tree_map(_on_host, batch) for batch in batches]
        try:
            outputs, targets = tree_map(lambda *tensors: torch.cat(tensors), *parts)
        except (RuntimeError, TypeError) as error:
            raise InputError(
                f"the outputs or targets of several batches do not form one tensor: {error}. Leave metrics out for "
                "the mean error, or write a task whose metrics take batches (gradlex.tasks.Task)."
            ) from error
        return {name: float(function(outputs, targets)) for name, function in self._metrics.items()}


def _on_host(given: Any) -> Any:
    return given.detach().cpu() if isinstance(given, Tensor) else given
