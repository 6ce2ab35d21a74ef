"""Predictor: a trained network with what belongs around it, so that anybody can give it inputs as the data has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradlex.data import Normalization, TableEncoding, call, checked_inputs, leaves, map_inputs
from gradlex.errors import InputError, failing_as
from gradlex.runs._folder import RunFolder
from gradlex.runs._resume import stored_recipe
from gradlex.runs._stored_run import load_network, load_normalization, load_task
from gradlex.tasks import Task, predictions

_BATCH = 128


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """Normalizes inputs as training did, asks the network in full precision, and answers in the targets' units.

    Examples:
        >>> import torch
        >>> from gradlex.runs import Predictor
        >>> from gradlex.tasks import Classification
        >>> network = torch.nn.Linear(2, 2, bias=False)
        >>> _ = torch.nn.init.eye_(network.weight)
        >>> predict = Predictor(network=network, task=Classification(), class_names=("cat", "dog"))
        >>> answers = predict(torch.tensor([[0.1, 0.9], [0.8, 0.2]]))
        >>> predict.names(answers)
        ['dog', 'cat']
    """

    network: nn.Module
    task: Task
    normalization: Normalization | None = None
    input_shape: tuple[int, ...] | None = None
    """What one sample must look like; None where only the network knows."""
    class_names: tuple[str, ...] | None = None
    table: TableEncoding | None = None
    """How the rows of a table become inputs, where the run was trained on one."""

    def __call__(self, x: Any) -> Tensor:
        """The task's answers on the host: class numbers, values in the units of the targets, masks, ..."""
        found: Tensor = self._asked(x, lambda outputs: predictions(self.task, outputs))
        return found

    def outputs(self, x: Any) -> Tensor:
        """What the network returns, on the host."""
        found: Tensor = self._asked(x, lambda outputs: outputs)
        return found

    def probabilities(self, x: Any) -> Tensor | None:
        """(samples, classes): of each class, where the task knows of any; None otherwise."""
        own = getattr(self.task, "probabilities", None)
        return None if own is None else self._asked(x, own)

    def names(self, answers: Tensor) -> list[str] | None:
        """The names of predicted classes; None where there are none, or answers are no classes."""
        if self.class_names is None or answers.ndim != 1 or answers.is_floating_point():
            return None
        return [self.class_names[number] for number in answers.tolist()]

    def _asked(self, x: Any, answer: Callable[[Any], Any]) -> Any:
        inputs = self._prepared(x)
        device = next(iter([*self.network.parameters(), *self.network.buffers()]), torch.zeros(0)).device
        training, found = self.network.training, []
        try:
            self.network.eval()
            with failing_as("the prediction"), torch.no_grad():
                for start in range(0, len(leaves(inputs)[0]), _BATCH):
                    batch = map_inputs(lambda leaf, s=start: leaf[s : s + _BATCH].to(device), inputs)  # type: ignore[misc]
                    found.append(answer(call(self.network, batch)).cpu())
        finally:
            self.network.train(training)
        return torch.cat(found)

    def _prepared(self, x: Any) -> Any:
        inputs = checked_inputs(x)
        if len(leaves(inputs)[0]) == 0:
            raise InputError("there is no sample to predict: x is empty.")
        if self.input_shape is not None and tuple(inputs.shape[1:]) != self.input_shape:
            raise InputError(
                f"this run was trained on samples of shape {self.input_shape}, got {tuple(inputs.shape[1:])}."
            )
        return inputs if self.normalization is None else self.normalization.apply(inputs)


def load_predictor(path: Path | str, *, ema: bool = False, device: str | None = "cpu") -> Predictor:
    """The predictor of a finished run; needs no data.

    Examples:
        >>> import torch
        >>> from gradlex.runs import load_predictor
        >>> predict = load_predictor("runs/mine")
        >>> images = torch.rand(5, 1, 8, 8)  # as the data has them: the predictor normalizes
        >>> predict(images).shape, predict.probabilities(images).shape
        (torch.Size([5]), torch.Size([5, 10]))
    """
    network = load_network(path, ema=ema, device=device)
    _, data = stored_recipe(RunFolder(Path(path)))
    names = data["class_names"]
    return Predictor(
        network=network,
        task=load_task(path),
        normalization=load_normalization(path),
        input_shape=tuple(data["input_shape"]),
        class_names=None if names is None else tuple(names),
        table=None if data.get("table") is None else TableEncoding.from_dict(data["table"]),
    )


def answer_columns(answers: Tensor, name: str) -> dict[str, list[Any]]:
    """Answers as columns of a table: one, or one for each of several numbers; refused where a sample has more axes."""
    if answers.ndim == 1:
        return {name: answers.tolist()}
    if answers.ndim == 2:
        return {f"{name}_{place}": column.tolist() for place, column in enumerate(answers.T)}
    raise InputError(
        f"the answer for a sample has the shape {tuple(answers.shape[1:])}, which is no row of a table: write .npz."
    )
