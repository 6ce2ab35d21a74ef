"""Evaluation: a network's metrics on a set of samples, its answer to each of them, and the table of classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradlex.data.inputs import call
from gradlex.data.samples import Samples
from gradlex.population.state import remember_modes
from gradlex.randomness import torch_seed
from gradlex.seeding import seeded
from gradlex.selection.protocol import Indices
from gradlex.tasks import Measure, Task
from gradlex.tasks.classification import ClassTable

# A fixed number, since a network's last bits depend on its batch. On a CPU batches of 64 to 128 images of 32 x 32 are
# the fastest: the maps of one layer then stay in its cache.
BATCH = 128


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One network on one set of samples.

    Examples:
        >>> import gradlex
        >>> run = gradlex.train(None, None, epochs=1, population=2, train_size=200)
        >>> found = run.examine()  # on the test part
        >>> found.metrics == run.metrics["test"], len(found.errors)
        (True, 359)
    """

    metrics: dict[str, float]
    measures: tuple[Measure, ...]
    """How to read them; the first is the primary one."""
    predicted: Tensor
    """The task's answers, in the order of the samples."""
    targets: Tensor
    errors: Tensor
    """(samples,): the task's error on each."""
    class_names: tuple[str, ...] | None
    classes: ClassTable | None
    """Class by class, if the task has classes."""

    def columns(self) -> dict[str, list[Any]]:
        """A row for each sample: its number, target, answer and error, with the names of classes beside them."""
        found: dict[str, list[Any]] = {"sample": list(range(len(self.errors)))}
        for name, values in (("target", self.targets), ("predicted", self.predicted)):
            found |= columns_of(values, name)
            if self.class_names is not None and self.classes is not None:
                found[f"{name}_name"] = [self.class_names[number] for number in values.tolist()]
        return {**found, "error": self.errors.tolist()}


def examine(
    model: nn.Module, task: Task, samples: Samples, seed: int, class_names: tuple[str, ...] | None = None
) -> Evaluation:
    """Evaluate a network, whose mode stays as it is, on clean samples in full precision."""
    kept: dict[str, list[Tensor]] = {"predicted": [], "targets": [], "errors": []}

    def watched() -> Iterator[tuple[Any, Any]]:
        for outputs, targets in outputs_of(model, samples, seed):
            kept["predicted"].append(task.predict(outputs).cpu())
            kept["targets"].append(targets.cpu())
            kept["errors"].append(task.errors(outputs, targets).cpu())
            yield outputs, targets

    metrics = dict(task.metrics(watched()))
    whole = {name: torch.cat(parts) for name, parts in kept.items()}
    table = getattr(task, "class_table", None)
    return Evaluation(
        metrics=metrics,
        measures=tuple(task.measures),
        class_names=class_names,
        classes=None if table is None else table(whole["predicted"], whole["targets"]),
        **whole,
    )


def outputs_of(model: nn.Module, samples: Samples, seed: int) -> Iterator[tuple[Any, Any]]:
    """Outputs and targets of clean samples, batch by batch; the model is in evaluation mode until the last."""
    with evaluating(model), seeded(torch_seed(seed, "evaluation"), device_of(model)):
        for inputs, targets in evaluated_batches(samples, np.arange(len(samples))):
            yield call(model, inputs), targets


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients and autocast inside, and the layers' own modes afterwards."""
    with ExitStack() as stack, torch.no_grad(), torch.autocast(device_of(model).type, enabled=False):
        stack.callback(remember_modes(model))
        model.eval()
        yield


def evaluated_batches(samples: Samples, indices: Indices) -> Iterator[tuple[Any, Any]]:
    """Clean samples in the batches that they are evaluated in."""
    for start in range(0, len(indices), BATCH):
        yield samples.clean(indices[start : start + BATCH])


def device_of(model: nn.Module) -> torch.device:
    """Where the model lies."""
    return next((tensor.device for tensor in (*model.parameters(), *model.buffers())), torch.device("cpu"))


def columns_of(answers: Tensor, name: str) -> dict[str, list[Any]]:
    """Answers as columns of a table: one, or one for each of several numbers."""
    if answers.ndim == 1:
        return {name: answers.tolist()}
    return {f"{name}_{place}": column.tolist() for place, column in enumerate(answers.flatten(1).T)}
