"""Evaluation: what a finished run's network makes of a set of samples: metrics, single answers, and class by class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradlex.population import capture
from gradlex.runs._folder import RunFolder
from gradlex.runs._predictor import answer_columns
from gradlex.runs._resume import stored_recipe
from gradlex.runs._stored_run import evaluator, load_network, load_task, load_test_samples
from gradlex.tasks import ClassTable, Measure, predictions


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One network on one set of samples.

    Examples:
        >>> from gradlex.runs import evaluation
        >>> found = evaluation("runs/mine")
        >>> list(found.columns())  # a row for each sample
        ['sample', 'target', 'target_name', 'predicted', 'predicted_name', 'error']
        >>> len(found.errors)
        359
    """

    metrics: dict[str, float]
    measures: tuple[Measure, ...]
    predicted: Tensor
    """The task's answers, in the order of the samples."""
    targets: Tensor
    errors: Tensor
    """(samples,): the task's error of each."""
    class_names: tuple[str, ...] | None
    classes: ClassTable | None
    """Class by class, where the task knows of any."""

    def columns(self) -> dict[str, Any]:
        """A row for each sample: its number, target, answer and error; names of classes beside their numbers."""
        found: dict[str, Any] = {"sample": list(range(len(self.errors)))}
        for name, values in (("target", self.targets), ("predicted", self.predicted)):
            found |= answer_columns(values, name)
            if self.class_names is not None and self.classes is not None:
                found[f"{name}_name"] = [self.class_names[number] for number in values.tolist()]
        return {**found, "error": self.errors.tolist()}


def evaluate(
    path: Path | str,
    *,
    dataset: str | None = None,
    device: str | None = None,
    data_dir: Path | None = None,
    ema: bool = False,
) -> dict[str, float]:
    """The task's metrics of the run's final model, or of its moving average, on test samples.

    Examples:
        >>> from gradlex.runs import evaluate, stored_run
        >>> metrics = evaluate("runs/mine")
        >>> sorted(metrics)
        ['accuracy', 'balanced_accuracy', 'loss', 'worst_class_accuracy']
        >>> abs(metrics["accuracy"] - stored_run("runs/mine").result["metrics"]["test"]["accuracy"]) < 1e-6
        True
    """
    return evaluation(path, dataset=dataset, device=device, data_dir=data_dir, ema=ema).metrics


def evaluation(
    path: Path | str,
    *,
    dataset: str | None = None,
    device: str | None = None,
    data_dir: Path | None = None,
    ema: bool = False,
) -> Evaluation:
    """The metrics, and what they are made of, of the run's final model, or of its moving average, on test samples.

    Examples:
        >>> from gradlex.runs import evaluation
        >>> found = evaluation("runs/mine")
        >>> found.predicted.shape, found.errors.shape
        (torch.Size([359]), torch.Size([359]))
        >>> len(found.classes.worst(3))  # the classes with the lowest recall
        3
    """
    recipe, data = stored_recipe(RunFolder(Path(path)))
    test = load_test_samples(path, dataset=dataset, data_dir=data_dir)
    model, task = load_network(path, ema=ema, device=device), load_task(path)
    worker = evaluator(model, test, task, recipe, device)
    found: dict[str, list[Tensor]] = {"predicted": [], "targets": [], "errors": []}

    def watch(outputs: Any, targets: Any) -> None:
        for name, values in (
            ("predicted", predictions(task, outputs)),
            ("targets", targets),
            ("errors", task.errors(outputs, targets)),
        ):
            found[name].append(values.cpu())

    metrics = worker.evaluate(capture(worker.model), worker.samples, watch)
    whole = {name: torch.cat(parts) for name, parts in found.items()}
    names, table = data["class_names"], getattr(task, "class_table", None)
    return Evaluation(
        metrics=metrics,
        measures=task.measures,
        class_names=None if names is None else tuple(names),
        classes=None if table is None else table(whole["predicted"], whole["targets"]),
        **whole,
    )
