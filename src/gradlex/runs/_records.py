"""What is recorded of a run, in the form it has on disk."""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradlex._version import __version__
from gradlex.engine import Evaluation
from gradlex.evolve import Generation
from gradlex.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Record:
    """One generation: a line of generations.jsonl, and of evaluations.jsonl where it was evaluated."""

    generation: int
    lr: float
    losses: tuple[float | None, ...]
    """Mean training loss of each candidate; None where it diverged."""
    selected: int
    """The candidate that became the parent, or has the largest weight in it."""
    weights: tuple[float, ...]
    """Each candidate's part in the parent."""
    entropy: float
    """Of the weights, in nats: 0 where the parent is one candidate."""
    reason: str
    cases_used: int
    cases_evaluated: int
    survivors: tuple[tuple[int, tuple[int, ...]], ...]
    """After how many cases which candidates were left."""
    train_seconds: float
    select_seconds: float
    evaluation: Evaluation | None = None
    """Accuracy and loss on the test samples, where this generation was evaluated."""
    training: Evaluation | None = None
    """Accuracy and loss on the clean training samples, in the last generation."""
    ema: Evaluation | None = None
    """What `evaluation` is, of the parents' moving average."""

    @classmethod
    def of(
        cls,
        generation: Generation,
        recipe: Recipe,
        evaluation: Evaluation | None,
        training: Evaluation | None,
        ema: Evaluation | None = None,
    ) -> Record:
        """The record of a generation that `evolve` yielded."""
        shares = generation.choice.shares
        return cls(
            generation=generation.generation,
            lr=recipe.lr_at(generation.generation),
            losses=tuple(generation.losses),
            selected=generation.choice.index,
            weights=tuple(shares.get(index, 0.0) for index in range(len(generation.losses))),
            entropy=sum(-share * math.log(share) for share in shares.values()),
            reason=generation.choice.reason,
            cases_used=generation.choice.cases_used,
            cases_evaluated=generation.cost.cases_evaluated,
            survivors=generation.choice.survivors,
            train_seconds=round(generation.cost.train_seconds, 6),
            select_seconds=round(generation.cost.select_seconds, 6),
            evaluation=evaluation,
            training=training,
            ema=ema,
        )

    @classmethod
    def from_lines(cls, line: dict[str, Any], evaluated: dict[str, Any]) -> Record:
        """The record that `line` and `evaluation_line` wrote."""
        winner = (float(index == line["selected"]) for index in range(len(line["losses"])))
        survivors = tuple((used, tuple(left)) for used, left in line["survivors"])
        return cls(
            **{
                **line,
                "losses": tuple(line["losses"]),
                "weights": tuple(line.get("weights", winner)),  # a run begun before there were any
                "entropy": line.get("entropy", 0.0),
                "survivors": survivors,
            },
            evaluation=_evaluation(evaluated, "test"),
            training=_evaluation(evaluated, "train"),
            ema=_evaluation(evaluated, "ema"),
        )

    def line(self) -> dict[str, Any]:
        """The line of generations.jsonl."""
        apart = ("evaluation", "training", "ema")
        return {name: value for name, value in vars(self).items() if name not in apart}

    def evaluation_line(self) -> dict[str, Any] | None:
        """The line of evaluations.jsonl; None where nothing was evaluated."""
        found = {
            f"{part}_{measure}": or_none(getattr(evaluation, measure))
            for part, evaluation in (("test", self.evaluation), ("train", self.training), ("ema", self.ema))
            if evaluation is not None
            for measure in ("accuracy", "loss")
        }
        return {"generation": self.generation, **found} if found else None


def _evaluation(line: dict[str, Any], part: str) -> Evaluation | None:
    if f"{part}_accuracy" not in line:
        return None
    loss = line[f"{part}_loss"]
    return Evaluation(accuracy=line[f"{part}_accuracy"], loss=math.nan if loss is None else loss)


def or_none(number: float) -> float | None:
    """The number as JSON has it: what is not finite is null."""
    return number if math.isfinite(number) else None


def records_of(generations: list[dict[str, Any]], evaluations: list[dict[str, Any]]) -> list[Record]:
    """The records from the lines of generations.jsonl and evaluations.jsonl."""
    evaluated = {line["generation"]: line for line in evaluations}
    return [Record.from_lines(line, evaluated.get(line["generation"], {})) for line in generations]


def environment(recipe: Recipe, device: torch.device) -> dict[str, Any]:
    """What computed the run."""
    return {
        "gradlex": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "device": str(device),
        "accelerator": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "threads": recipe.threads,
        "precision": recipe.precision,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:  # not Linux
        names = []
    return names[0] if names else platform.processor()
