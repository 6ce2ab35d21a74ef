"""What is planned and not finished, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradlex.experiments import METHODS, Plan
from gradlex.report._format import listed
from gradlex.runs import StoredRun


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A planned run without a result."""

    method: str
    run: StoredRun | None
    """None where it was not started; which seed it will have is then not known from the folder."""


def missing_lines(plan: Plan, missing: Sequence[Missing]) -> tuple[str, ...]:
    """One line a method: how many of its planned runs are not finished, and how far those are that were begun."""
    lines = []
    for name, method in METHODS.items():
        planned = sum(run.method == name for run in plan.runs)
        found = [each for each in missing if each.method == name]
        if not found:
            continue
        begun = [_progress(each.run) for each in found if each.run is not None]
        absent = len(found) - len(begun)
        parts = [*begun, *([f"{absent} not started"] if absent else [])]
        lines.append(f"{len(found)} of {planned} runs of {method.title} ({listed(parts)}).")
    return tuple(lines)


def _progress(run: StoredRun) -> str:
    return f"seed {run.recipe.seed} at generation {len(run.generations)} of {run.recipe.generations}"
