"""Record: what is known of one generation, in memory and as the lines it has on disk."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gradlex.evolve import Generation
from gradlex.recipe import Recipe

Metrics: TypeAlias = Mapping[str, float]
"""A task's metrics by name."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One generation: a line of generations.jsonl, and of evaluations.jsonl where it was evaluated.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> data = torch.randn(60, 4), torch.arange(60) % 3
        >>> run = gradlex.train(torch.nn.Linear(4, 3), data, gradlex.Recipe(generations=2, batch_size=8))
        >>> record = run.generations[-1]
        >>> record.generation, len(record.losses), record.lr
        (1, 4, 0.05)
        >>> record.weights[record.selected]  # one candidate is the whole parent
        1.0
    """

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
    deciding: tuple[int, ...] | None = None
    """Which case made each entry of `survivors`, and last the case that all failed, if that ended it; empty where no
    single case decides, None where it was not recorded."""
    movement: float | None = None
    spread: float | None = None
    disagreement: float | None = None
    """How different the candidates were: see `gradlex.population.Diversity`."""
    heritability: Mapping[str, float] | None = None
    """What they kept of the last winner's advantage: see `gradlex.population.Heritability`."""
    settings: tuple[Mapping[str, Any], ...] = ()
    """Where candidates vary: what each was trained with (lr is a factor)."""
    metrics: Mapping[str, Metrics] = field(default_factory=dict)
    """The task's metrics of the new parent on the "test" and "validation" samples, and of the parents' moving average
    on the test samples ("ema")."""

    @property
    def test(self) -> Metrics | None:
        """The metrics on the test samples, where this generation was evaluated."""
        return self.metrics.get("test")

    @property
    def validation(self) -> Metrics | None:
        """The metrics on the validation samples, where there are any."""
        return self.metrics.get("validation")

    @classmethod
    def of(
        cls,
        generation: Generation,
        recipe: Recipe,
        metrics: Mapping[str, Metrics],
        settings: Sequence[Mapping[str, Any]] = (),
    ) -> Record:
        """The record of a generation that `evolve` yielded."""
        shares, inherited = generation.choice.shares, generation.diversity.heritability
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
            deciding=generation.choice.deciding,
            train_seconds=round(generation.cost.train_seconds, 6),
            select_seconds=round(generation.cost.select_seconds, 6),
            movement=_rounded(generation.diversity.movement),
            spread=_rounded(generation.diversity.spread),
            disagreement=_rounded(generation.diversity.disagreement),
            heritability=None
            if inherited is None
            else {k: float(f"{v:.4g}") for k, v in vars(inherited).items()},
            settings=tuple(settings),
            metrics=metrics,
        )

    @classmethod
    def from_lines(cls, line: Mapping[str, Any], evaluated: Mapping[str, Any]) -> Record:
        """The record that `line` and `evaluation_line` wrote, also in gradlex 0.1.0."""
        winner = (float(index == line["selected"]) for index in range(len(line["losses"])))
        return cls(
            **{
                **line,
                "losses": tuple(line["losses"]),
                "weights": tuple(line.get("weights", winner)),  # a run begun before there were any
                "entropy": line.get("entropy", 0.0),
                "settings": tuple(line.get("settings", ())),
                "survivors": tuple((used, tuple(left)) for used, left in line["survivors"]),
                "deciding": None if line.get("deciding") is None else tuple(line["deciding"]),
            },
            metrics=metrics_from(evaluated),
        )

    def line(self) -> dict[str, Any]:
        """The line of generations.jsonl."""
        apart = ("metrics", *(() if self.settings else ("settings",)))
        return {name: value for name, value in vars(self).items() if name not in apart}

    def evaluation_line(self) -> dict[str, Any] | None:
        """The line of evaluations.jsonl; None where nothing was evaluated."""
        if not self.metrics:
            return None
        return {"generation": self.generation, "metrics": plain_metrics(self.metrics)}


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


def records_from(
    generations: Sequence[Mapping[str, Any]], evaluations: Sequence[Mapping[str, Any]]
) -> list[Record]:
    """The records from the lines of generations.jsonl and evaluations.jsonl."""
    evaluated = {line["generation"]: line for line in evaluations}
    return [Record.from_lines(line, evaluated.get(line["generation"], {})) for line in generations]


def plain_metrics(metrics: Mapping[str, Metrics]) -> dict[str, dict[str, float | None]]:
    """Metrics as JSON has them: what is not finite is null."""
    return {
        part: {name: value if math.isfinite(value) else None for name, value in found.items()}
        for part, found in metrics.items()
    }


def metrics_from(line: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """What `plain_metrics` wrote, or gradlex 0.1.0 as `test_accuracy`, `test_loss` and so on."""
    parts: Mapping[str, Mapping[str, float | None]] = line.get("metrics") or {
        part: {name: line[f"{prefix}{name}"] for name in ("accuracy", "loss")}
        for part, prefix in (("test", "test_"), ("train", "train_"), ("ema", "ema_"), ("ema", "ema_test_"))
        if line.get(f"{prefix}accuracy") is not None
    }
    return {
        part: {name: math.nan if value is None else float(value) for name, value in found.items()}
        for part, found in parts.items()
    }
