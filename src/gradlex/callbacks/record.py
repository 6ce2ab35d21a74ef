"""Record: one generation in numbers, in memory and as a line of generations.jsonl."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from gradlex._checks import parsed

if TYPE_CHECKING:
    from gradlex.evolve import Generation

Metric: TypeAlias = Annotated[
    float,
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(lambda value: value if math.isfinite(value) else None),
]
"""JSON has no number that isn't finite: null stands for it."""


class Record(BaseModel):
    """One generation of a run: the losses, the chosen candidate and why, and the new parent's metrics.

    Examples:
        >>> from gradlex import Record
        >>> line = '{"generation": 3, "lr": 0.1, "losses": [0.5, 0.4], "chosen": 1, "weights": [0, 1], "reason": '
        >>> line += '"sole_survivor", "cases_used": 7, "cases_evaluated": 64, "train_seconds": 1, "select_seconds": 0}'
        >>> record = Record.from_line(line)
        >>> record.losses[record.chosen], record.cases_used
        (0.4, 7)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    generation: int
    """The first one is 1."""
    lr: float
    losses: tuple[float | None, ...]
    """Mean training loss of each candidate; None where it diverged."""
    chosen: int
    """The candidate that became the parent, or has the largest weight in it."""
    weights: tuple[float, ...]
    """Each candidate's part in the parent."""
    reason: str
    """How selection ended."""
    cases_used: int
    cases_evaluated: int
    """Over all candidates."""
    survivors: tuple[tuple[int, tuple[int, ...]], ...] | None = None
    """After how many cases which candidates were left."""
    deciding: tuple[int, ...] | None = None
    """The case behind each entry of `survivors`, and last the case that all failed, if that ended the selection."""
    disagreement: float | None = None
    """How often two candidates differ on a case, one right and one wrong."""
    train_seconds: float
    select_seconds: float
    metrics: Mapping[str, Mapping[str, Metric]] = {}
    """The new parent's metrics on the "validation" and "test" part, if this generation was evaluated."""

    @classmethod
    def of(
        cls, generation: Generation, *, lr: float, metrics: Mapping[str, Mapping[str, float]] | None = None
    ) -> Record:
        """The record of a generation that `evolve` yielded."""
        choice = generation.choice
        return cls(
            generation=generation.number,
            lr=lr,
            losses=generation.losses,
            chosen=choice.index,
            weights=tuple(choice.shares.get(index, 0.0) for index in range(len(generation.losses))),
            reason=choice.reason,
            cases_used=choice.cases_used,
            cases_evaluated=choice.evaluated,
            survivors=choice.survivors,
            deciding=choice.deciding,
            disagreement=choice.disagreement,
            train_seconds=round(generation.train_seconds, 4),
            select_seconds=round(generation.select_seconds, 4),
            metrics=metrics or {},
        )

    def to_line(self) -> dict[str, Any]:
        """The values of its line in generations.jsonl; a metric that is not finite is null."""
        return {name: value for name, value in self.model_dump().items() if value is not None and value != {}}

    @classmethod
    def from_line(cls, line: str | Mapping[str, Any], where: object = "the record of a generation") -> Record:
        """The record of a line, as text or as `to_line` returned it."""
        return parsed(cls, line, where)
