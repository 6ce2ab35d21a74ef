"""Run: what a run ends with."""

from __future__ import annotations

import html
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradlex import _devices
from gradlex.callbacks import Metrics, Record
from gradlex.data import Normalization
from gradlex.recipe import Recipe
from gradlex.runs._predictor import Predictor
from gradlex.tasks import Measure, Task


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """A finished run.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> data = torch.randn(60, 4), torch.arange(60) % 3
        >>> run = gradlex.train(torch.nn.Linear(4, 3), data, gradlex.Recipe(generations=1, batch_size=8))
        >>> run.predict(torch.randn(2, 4)).shape  # a class for each sample
        torch.Size([2])
        >>> run.model.training
        False
        >>> run.result["samples_trained"]
        60
        >>> list(run.train)
        ['accuracy', 'loss', 'balanced_accuracy', 'worst_class_accuracy']
    """

    model: nn.Module
    """The trained network, an ordinary module in evaluation mode."""
    recipe: Recipe
    """The resolved recipe."""
    generations: list[Record]
    """What happened, generation by generation."""
    result: dict[str, Any]
    """What result.json holds: metrics, seconds, samples_trained, ..."""
    measures: tuple[Measure, ...]
    """How the task's metrics are read; the first is the primary one."""
    task: Task
    """What was learnt, with what it took from the training part: `task.predict(outputs)` in the targets' units."""
    normalization: Normalization | None
    """What the model's inputs were normalized by; None where they were given to it as they are."""
    path: Path | None
    """The run folder."""
    ema: nn.Module | None = None
    """With `Recipe.ema`: a network like `model` with the moving average of the parents."""

    @property
    def test(self) -> Metrics | None:
        """The final metrics on the test samples; None without any."""
        found: Metrics | None = self.result["metrics"].get("test")
        return found

    @property
    def validation(self) -> Metrics | None:
        """The final metrics on the validation samples; None without any."""
        found: Metrics | None = self.result["metrics"].get("validation")
        return found

    @property
    def train(self) -> Metrics:
        """The final metrics on the training samples, un-augmented."""
        found: Metrics = self.result["metrics"]["train"]
        return found

    def predict(self, x: Any) -> Tensor:
        """The task's answers for inputs as the training data has them, normalized as those were.

        Class numbers, values in the units of the targets, ...; a tensor on the host. `predictor` has more.
        """
        return self.predictor(x)

    @property
    def predictor(self) -> Predictor:
        """The network with its normalization and task: answers, outputs and probabilities."""
        return Predictor(network=self.model, task=self.task, normalization=self.normalization)

    def summary(self) -> dict[str, str]:
        """What matters most, as it is printed."""
        result, recipe = self.result, self.recipe
        metrics = {
            f"{part} {measure.name}": _shown(result["metrics"][part].get(measure.name), measure)
            for part in ("test", "validation", "train", "ema")
            if part in result["metrics"]
            for measure in self.measures
        }
        selection = recipe.method if isinstance(recipe.method, str) else recipe.method.__name__
        cost = {
            "selection": selection if recipe.population == 1 else f"{selection}, p = {recipe.population}",
            "generations": f"{result['generations']:,}",
            "samples trained": f"{result['samples_trained']:,}",
            "case evaluations": f"{result['cases_evaluated']:,}",
            "time": f"{result['seconds']:,.1f} s",
        }
        rest = {"stopped": result.get("stopped"), "folder": None if self.path is None else str(self.path)}
        return {**metrics, **cost, **{name: value for name, value in rest.items() if value}}

    def __repr__(self) -> str:
        others = {
            f"{part} {measure.name}" for part in self.result["metrics"] for measure in self.measures[1:]
        }
        parts = [f"{name}={value}" for name, value in self.summary().items() if name not in others]
        return f"Run({', '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self.summary().items()
        )
        return f"<table>{rows}</table>"


def _shown(value: float | None, measure: Measure) -> str:
    if value is None:
        return "-"
    return f"{value:.2%}" if measure.fraction else f"{value:.4g}"


def peak_memory(device: torch.device) -> int | None:
    """Bytes: of the accelerator that a run computes on, else the process's resident set; None where none tells."""
    if _devices.is_accelerator(device):
        return _devices.peak_memory(device)
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage, which on Linux starts from the peak of the process that started this one.
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
