"""Run: what a run ends with, in memory or read back from its folder."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradlex._objects import load_object
from gradlex.callbacks import Record
from gradlex.callbacks.progress import measured
from gradlex.data.inputs import call, checked_inputs, leaves, map_inputs
from gradlex.data.load import read_samples
from gradlex.data.normalization import Normalization, normalized
from gradlex.data.samples import Samples
from gradlex.errors import InputError
from gradlex.models import build
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs.devices import find_device
from gradlex.runs.evaluate import BATCH, Evaluation, device_of, evaluating, examine
from gradlex.runs.folder import RECORDS, RUN, WEIGHTS, RunFolder
from gradlex.runs.probe import lay_channels_last
from gradlex.runs.problem import build_network, stored_parts
from gradlex.runs.surroundings import surroundings
from gradlex.runs.weights import put_weights, read_weights
from gradlex.tasks import Task, make_task

if TYPE_CHECKING:
    import pandas as pd


class MissingPartError(InputError, KeyError):
    """Metrics of a part that the data doesn't have."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class Metrics(dict[str, dict[str, float]]):
    """Metrics by part; a part that wasn't there raises an error that says so."""

    def __missing__(self, part: str) -> dict[str, float]:
        known = part in ("test", "validation")
        cure = f"train with {part}=(x, y) or {part}_fraction=0.1" if known else f"it has {', '.join(self)}"
        raise MissingPartError(f"the run has no {part} data: {cure}.")


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """A finished run.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> data = torch.randn(60, 4), torch.arange(60) % 3
        >>> run = gradlex.train(torch.nn.Linear(4, 3), data, epochs=2, batch_size=8)
        >>> run.predict(torch.randn(2, 4)).shape  # a class for each sample
        torch.Size([2])
        >>> list(run.metrics["train"])
        ['accuracy', 'loss', 'balanced_accuracy', 'worst_class_accuracy']
        >>> run.metrics["test"]
        Traceback (most recent call last):
        gradlex.runs.run.MissingPartError: the run has no test data: train with test=(x, y) or test_fraction=0.1.
        >>> run.frame()[["generation", "reason"]].shape  # a pandas frame, one row per generation
        (2, 2)
    """

    model: nn.Module
    """The trained network in evaluation mode; it takes what the data holds, since normalization is inside."""
    recipe: Recipe
    """The resolved recipe."""
    history: list[Record]
    """What happened, generation by generation."""
    result: dict[str, Any]
    """What result.json holds: metrics, seconds, samples_trained, ..."""
    task: Task
    """What was learned."""
    data: dict[str, Any]
    """The data as run.json describes it."""
    environment: dict[str, Any]
    """What computed it: versions, device, threads, processes."""
    path: Path | None = None
    """The run folder."""
    _test: Samples | None = field(default=None)
    """The test part, unless the run was read from its folder."""

    @property
    def metrics(self) -> Metrics:
        """The final metrics by part: "train" (un-augmented), and "test" and "validation" if there were such data."""
        return Metrics(self.result["metrics"])

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the classes, if the data has any."""
        names = self.data.get("class_names")
        return None if names is None else tuple(names)

    def predict(self, x: Any) -> Tensor:
        """The answers for inputs as the data holds them: class numbers, or values in the units of the targets."""
        answers: Tensor = self._answers(x, self.task.predict)
        return answers

    def probabilities(self, x: Any) -> Tensor:
        """(samples, classes): the probability of each class."""
        own = getattr(self.task, "probabilities", None)
        if own is None:
            raise InputError(f"the task {type(self.task).__name__} has no probabilities: use predict().")
        answers: Tensor = self._answers(x, own)
        return answers

    def evaluate(self, data: Any = None) -> dict[str, float]:
        """The metrics on (x, y), a Dataset, or the data of this name; by default on the run's own test part."""
        return self.examine(data).metrics

    def examine(self, data: Any = None) -> Evaluation:
        """As `evaluate`, with the answer and the error for each sample."""
        samples, device = self._samples(data), device_of(self.model)
        samples = samples.replace(channels_last=self.data["channels_last"])
        with surroundings(device=device, threads=torch.get_num_threads(), deterministic=False):
            return examine(self.model, self.task, samples.to(device), self.recipe.seed, self.class_names)

    def frame(self) -> pd.DataFrame:
        """The history as a pandas frame, with the metrics as columns such as test_accuracy."""
        import pandas as pd

        rows = []
        for record in self.history:
            row = record.to_line()
            metrics = row.pop("metrics", {})
            rows.append({**row, **{f"{part}_{name}": v for part, own in metrics.items() for name, v in own.items()}})
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        primary = self.task.measures[0]
        found = [f"{part} {primary.name} {measured(primary, own[primary.name])}" for part, own in self.metrics.items()]
        where = [] if self.path is None else [str(self.path)]
        return f"Run({', '.join([*found, f'{len(self.history)} generations', *where])})"

    def _answers(self, x: Any, answer: Any) -> Tensor:
        inputs = checked_inputs(x)
        if len(leaves(inputs)[0]) == 0:
            raise InputError("x is empty: give at least one sample.")
        shape = self.data.get("input_shape")
        if shape is not None and isinstance(inputs, Tensor) and list(inputs.shape[1:]) != list(shape):
            raise InputError(f"the run was trained on samples of shape {tuple(shape)}, got {tuple(inputs.shape[1:])}.")
        device, found = device_of(self.model), []
        with evaluating(self.model):
            for start in range(0, len(leaves(inputs)[0]), BATCH):
                batch = map_inputs(lambda leaf, s=start: leaf[s : s + BATCH].to(device), inputs)  # type: ignore[misc]
                found.append(answer(call(self.model, batch)).cpu())
        return torch.cat(found)

    def _samples(self, data: Any) -> Samples:
        if data is not None:
            return read_samples(data, self.data)
        if self._test is not None:
            return self._test
        if self.recipe.dataset == GIVEN:
            raise InputError("the run's data was passed in from Python, which isn't stored: give evaluate() data.")
        test = stored_parts(self.recipe, self.data, self.environment).test
        if test is None:
            raise InputError(f"{self.recipe.dataset} has no test part: name data.")
        return test


def load(
    path: Path | str,
    model: nn.Module | str | None = None,
    *,
    task: Any = None,
    device: str | torch.device | None = "cpu",
) -> Run:
    """The finished run in a folder: its network with the final weights, its history and its result.

    Args:
        path: The run folder.
        model: A module like the one that was trained, if it came from Python; it is copied. Or `module:function`, which
            makes one.
        task: The task or loss, if it was an object from Python.
        device: The device to put the network on.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> run = gradlex.load("runs/mine")  # doctest: +SKIP
        >>> run.predict(torch.rand(5, 1, 8, 8))  # doctest: +SKIP
    """
    folder = RunFolder(path)
    described, result = folder.description(), folder.result()
    recipe, data = Recipe(**described.recipe), described.data
    if recipe.model == GIVEN and model is None:
        raise InputError(
            f"the run in {path} trained a module from Python, which isn't stored: give one like it, as in "
            f"gradlex.load({str(path)!r}, model), or name a function that makes one: --model module:function."
        )
    if task is None and recipe.task == GIVEN:
        raise InputError(f"the task of {path} was an object from Python, which isn't stored: give it as task=.")
    with surroundings(device=torch.device("cpu"), threads=torch.get_num_threads(), deterministic=False):
        model = load_object(model, "model")() if isinstance(model, str) else model
        try:
            if model is not None:
                network = build(model, sample=(), outputs=0)
            else:
                network = build_network(recipe.model, data["input_shape"], described.model["outputs"], recipe.seed)
            scales = data["normalization"]
            network = normalized(network, None if scales is None else Normalization(**scales))
            if data["channels_last"]:
                lay_channels_last(network)
            given = task if recipe.task == GIVEN else recipe.task
            found = make_task(given, learned=data["task"], name=data["task_name"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{folder.path / RUN} is damaged: {error!r}. Restore the file.") from error
        put_weights(network, read_weights(folder.path / WEIGHTS), folder.path / WEIGHTS)
        network = network.eval().to(find_device(device))
    metrics = {
        part: {name: math.nan if value is None else value for name, value in own.items()}
        for part, own in result.metrics.items()
    }
    history = folder.records()
    if len(history) != result.generations:
        lines = f"{len(history)} of {result.generations} lines"
        raise InputError(f"{folder.path / RECORDS} is damaged: it has {lines}. Restore the file.")
    return Run(
        model=network,
        recipe=recipe,
        history=history,
        result={**result.model_dump(), "metrics": metrics},
        task=found,
        data=data,
        environment=described.environment,
        path=folder.path,
    )
