"""Plan: which runs an experiment consists of, and where they are.

ROOT/<name>.json names the runs; ROOT/runs/ holds them, shared by all experiments of the same root.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradlex._disk import write_whole
from gradlex.errors import InputError
from gradlex.recipe import Recipe

RUNS = "runs"
NAMES = ("compare", "table1", "table2", "table3", "table4", "figure2")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One run of an experiment: the method it stands for, its folder's name under ROOT/runs, and its recipe."""

    method: str
    run: str
    recipe: Recipe
    failure: str | None = None
    """Why the run ended without a result, when it was last tried."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One experiment of a root."""

    root: Path
    name: str
    """One of NAMES."""
    scale: str
    """smoke, small or paper; own for one's own data."""
    command: str
    """What makes the experiment again."""
    runs: tuple[Planned, ...]
    layers: tuple[str, ...] = ()
    """Of figure2: the layers that are compared."""

    def path(self, planned: Planned) -> Path:
        """The folder of one run."""
        return self.root / RUNS / planned.run

    def with_failures(self, reasons: Mapping[str, str]) -> Plan:
        """The plan with what failed, by the runs' names."""
        return replace(
            self, runs=tuple(replace(planned, failure=reasons.get(planned.run)) for planned in self.runs)
        )

    @property
    def file(self) -> Path:
        """ROOT/<name>.json."""
        return self.root / f"{self.name}.json"

    def earlier_failures(self) -> dict[str, str]:
        """Why runs of this plan failed when they were last tried, by their names, as far as its file knows."""
        earlier = stored_plan(self.file).runs if self.file.exists() else ()
        names = {planned.run for planned in self.runs}
        return {each.run: each.failure for each in earlier if each.failure is not None and each.run in names}

    def save(self) -> None:
        """Write the plan's file; several commands may be at the same plan, each with a part of its runs."""
        self.root.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {
            "experiment": self.name,
            "scale": self.scale,
            "command": self.command,
            **({"layers": list(self.layers)} if self.layers else {}),
            "runs": [_plain(planned) for planned in self.runs],
        }
        write_whole(self.file, (json.dumps(content, indent=2) + "\n").encode(), shared=True)


def _plain(planned: Planned) -> dict[str, Any]:
    failure = {} if planned.failure is None else {"failure": planned.failure}
    return {
        "method": planned.method,
        "run": planned.run,
        "recipe": planned.recipe.changed(),
        **failure,
    }


def stored_plan(path: Path) -> Plan:
    """The plan that ROOT/<name>.json holds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Plan(
            root=path.parent,
            name=content["experiment"],
            scale=content["scale"],
            command=content["command"],
            runs=tuple(
                Planned(**{**run, "recipe": Recipe.from_dict(run["recipe"])}) for run in content["runs"]
            ),
            layers=tuple(content.get("layers", ())),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the plan of an experiment: {error!r}.") from error


def stored_plans(root: Path) -> list[Plan]:
    """All plans of a root, by their names; refused where there is none."""
    paths = [root / f"{name}.json" for name in NAMES]
    plans = [stored_plan(path) for path in paths if path.exists()]
    if not plans:
        raise InputError(
            f"{root} holds no experiment: make one with gradlex paper or gradlex compare --out {root}."
        )
    return plans
