"""What is planned and has no result, in words: not started, on its way, or failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gradlex.experiments import METHODS, Planned
from gradlex.report._columns import Column
from gradlex.report._format import listed
from gradlex.runs import StoredRun


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A planned run without a result."""

    column: Column
    planned: Planned
    run: StoredRun | None
    """None where it was not started."""


def missing_lines(columns: Sequence[Column], missing: Sequence[Missing]) -> tuple[str, ...]:
    """One line a column: how many of its planned runs have no result, and how far they are, or why they failed."""
    numbers = Counter(columns)
    several = len({column.setting for column in columns}) > 1
    lines = []
    for column, planned in numbers.items():
        found = [each for each in missing if each.column == column]
        if not found:
            continue
        begun = [
            _progress(each) for each in found if each.run is not None or each.planned.failure is not None
        ]
        absent = [
            each.planned.recipe.seed for each in found if each.run is None and each.planned.failure is None
        ]
        parts = [*begun, *([f"{_seeds(absent)} not started"] if absent else [])]
        where = f", {column.setting}" if several else ""
        lines.append(f"{len(found)} of {planned} runs of {_name(column)}{where} ({'; '.join(parts)}).")
    return tuple(lines)


def _progress(missing: Missing) -> str:
    recipe, done = missing.planned.recipe, len(missing.run.generations) if missing.run else 0
    told = f"seed {recipe.seed} at generation {done} of {recipe.generations}"
    return (
        told if missing.planned.failure is None else f"{told} failed: {missing.planned.failure.rstrip('.')}"
    )


def _name(column: Column) -> str:
    """The title, also where the table leaves out its method."""
    method = METHODS[column.method].title
    return column.title if method in column.title else f"{method}, {column.title}"


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {listed([str(seed) for seed in seeds])}"
