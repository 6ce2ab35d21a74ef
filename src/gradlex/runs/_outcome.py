"""What a run ends with: the Run that is returned, and what its result.json holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from gradlex._version import __version__
from gradlex.data import Normalization
from gradlex.engine import Worker
from gradlex.population import Parent
from gradlex.recipe import Recipe
from gradlex.runs._journal import Journal
from gradlex.runs._memory import peak_memory
from gradlex.runs._problem import Problem
from gradlex.runs._records import Record, or_none


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    model: nn.Module
    """The trained network, an ordinary module in evaluation mode."""
    recipe: Recipe
    """The resolved recipe."""
    generations: list[Record]
    """What happened, generation by generation."""
    result: dict[str, Any]
    """What result.json holds: test_accuracy, train_accuracy, seconds, samples_trained, ..."""
    normalization: Normalization | None
    """What the model's inputs were normalised by; None where they were given to it as they are."""
    path: Path | None
    """The run folder."""
    ema: nn.Module | None = None
    """With `Recipe.ema`: a network like `model` with the moving average of the parents."""


def result_of(problem: Problem, worker: Worker, parent: Parent, journal: Journal) -> dict[str, Any]:
    """What result.json holds of a run whose last parent this is."""
    tested, trained = journal.records[-1].evaluation, journal.records[-1].training
    average = journal.records[-1].ema
    averaged = {
        "ema_test_accuracy": None if average is None else average.accuracy,
        "ema_test_loss": None if average is None else or_none(average.loss),
    }
    return {
        "test_accuracy": None if tested is None else tested.accuracy,
        "test_loss": None if tested is None else or_none(tested.loss),
        "train_accuracy": None if trained is None else trained.accuracy,
        "train_loss": None if trained is None else or_none(trained.loss),
        **({} if parent.ema is None else averaged),
        "generations": parent.generation,
        "samples_trained": parent.generation * len(problem.train),
        "cases_evaluated": sum(record.cases_evaluated for record in journal.records),
        "parameters": sum(p.numel() for p in worker.model.parameters()),
        "seconds": journal.seconds,
        "peak_memory": peak_memory(problem.device),
        "data": {key: problem.data[key] for key in ("fingerprint", "train_samples", "test_samples")},
        "gradlex": __version__,
    }
