"""Decisions: who was eliminated by which case, generation by generation, and which cases decided most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gradlex.callbacks import Record


@dataclass(frozen=True, kw_only=True)
class Step:
    """One case that decided, in one generation."""

    case: int
    eliminated: tuple[int, ...]
    """Nobody where all who were left failed it, which ended the selection."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How one generation's parent was found."""

    generation: int
    steps: tuple[Step, ...]
    left: tuple[int, ...]
    """Who was in the pool when selection ended."""
    selected: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Decisive:
    """What one case did over some generations."""

    case: int
    eliminated: int
    """Candidates, counted once per generation."""
    generations: int
    """In which it eliminated somebody."""
    ended: int
    """Generations that it ended because all who were left failed it."""


def decisions(records: Sequence[Record]) -> list[Decision]:
    """Of the generations that several candidates entered; without steps where no single case decided."""
    found = []
    for record in records:
        pool = [number for number, loss in enumerate(record.losses) if loss is not None]
        if len(pool) < 2:
            continue
        steps, before = [], pool
        deciding = record.deciding or ()
        for case, (_, left) in zip(deciding, record.survivors, strict=False):
            steps.append(Step(case=case, eliminated=tuple(each for each in before if each not in left)))
            before = list(left)
        if record.reason == "all_failed" and len(deciding) > len(record.survivors):
            steps.append(Step(case=deciding[-1], eliminated=()))
        left = record.survivors[-1][1] if record.survivors else tuple(pool)
        found.append(
            Decision(
                generation=record.generation,
                steps=tuple(steps),
                left=left,
                selected=record.selected,
                reason=record.reason,
            )
        )
    return found


def decisive(found: Sequence[Decision]) -> list[Decisive]:
    """The cases that decided, those that eliminated most candidates first."""
    eliminated, generations, ended = Counter[int](), Counter[int](), Counter[int]()
    for decision in found:
        for step in decision.steps:
            eliminated[step.case] += len(step.eliminated)
            (generations if step.eliminated else ended)[step.case] += 1
    return sorted(
        (
            Decisive(case=case, eliminated=eliminated[case], generations=generations[case], ended=ended[case])
            for case in eliminated
        ),
        key=lambda each: (-each.eliminated, -each.ended, each.case),
    )


def halves(found: Sequence[Decision], generations: int) -> tuple[list[Decision], list[Decision]]:
    """Early and late: the decisions of the first half of all generations, and those of the second."""
    middle = generations / 2
    return [each for each in found if each.generation < middle], [
        each for each in found if each.generation >= middle
    ]
