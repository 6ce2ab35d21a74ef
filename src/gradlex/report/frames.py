"""Run folders as pandas frames: one row per run, or one row per generation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
from pydantic import BaseModel, ConfigDict

from gradlex._checks import parsed
from gradlex._files import read_text
from gradlex.errors import InputError
from gradlex.runs.folder import Result

EXPERIMENT = "experiment.json"

Metrics: TypeAlias = dict[str, dict[str, float | None]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """An experiment as its folder declares it, with its runs.

    Attributes:
        path: The folder.
        title: What it is called.
        methods: Their names, in order.
        seeds: The planned seeds.
        pairs: The declared comparisons, the primary one first.
        metric: What is compared, on the test part.
        higher_is_better: Whether a higher value is a better one.
        fraction: Whether it is printed as a percentage (None: by its name).
        setting: The setting in plain words.
        order: Its place among others; studies without one come last.
        command: What started it.
        note: What a reader must know about it.
    """

    path: Path
    title: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    pairs: tuple[tuple[str, str], ...]
    metric: str = "accuracy"
    higher_is_better: bool = True
    fraction: bool | None = None
    setting: str = ""
    order: float = math.inf
    command: str = ""
    note: str = ""

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run, as `results` gives them; no row before the first one has begun."""
        return _frame(self.path)

    @cached_property
    def history(self) -> pd.DataFrame:
        """The generations of the finished runs, method by method."""
        runs = self.runs
        return history(*(path for name in self.methods for path in runs.path[runs.finished & (runs.method == name)]))


def results(folder: Path | str) -> pd.DataFrame:
    """The runs in a folder and below it, one row each.

    Columns: experiment, method, seed, finished, epochs, a column for each metric such as test_accuracy, and the cost:
    samples_trained, critical_path, cases_evaluated, seconds. The last column is the path.

    Examples:
        >>> import gradlex
        >>> frame = gradlex.results("results")  # doctest: +SKIP
        >>> frame.groupby("method").test_accuracy.mean()  # doctest: +SKIP
    """
    frame = _frame(Path(folder))
    if frame.empty:
        raise InputError(f"{folder} holds no runs: name a run folder, or a folder that holds some.")
    return frame


def history(*runs: Path) -> pd.DataFrame:
    """The generations of runs, one row each, with the metrics as columns such as test_accuracy."""
    rows: list[dict[str, Any]] = []
    for path in (run / "generations.jsonl" for run in runs):
        stored = read_run(path.parent)[0]
        for number, text in enumerate(read_text(path).splitlines() if path.exists() else [], start=1):
            line = parsed(Line, text, f"{path}: line {number}")
            own = {"method": stored.method, "seed": stored.seed, **line.model_dump(exclude={"metrics"})}
            rows.append({**own, **_flat(line.metrics)})
    columns = None if rows else ["method", "seed", *Line.model_fields]
    return pd.DataFrame(rows, columns=columns).astype({"disagreement": float})


def studies(folder: Path | str) -> list[Study]:
    """The experiments in a folder and below it, in their declared order."""
    found = []
    for file in sorted(Path(folder).rglob(EXPERIMENT)):
        declared = parsed(dict[str, Any], read_text(file), file)
        given = {name: value for name, value in declared.items() if value not in (None, "")}
        found.append(parsed(Study, {"title": file.parent.name, **given, "path": file.parent}, file))
    return sorted(found, key=lambda study: study.order)


class Line(BaseModel):
    """A line of generations.jsonl; an own loop may have recorded less than a run of the trainer."""

    model_config = ConfigDict(extra="allow")

    generation: int
    reason: str
    chosen: int
    cases_used: int
    losses: list[float | None] = []
    disagreement: float | None = None
    survivors: list[tuple[int, list[int]]] | None = None
    deciding: list[int] | None = None
    metrics: Metrics = {}


class RunFile(BaseModel):
    """run.json"""

    experiment: Any = ""
    """The name of the experiment's folder, if the run lies in one, whatever an own loop has stored under this name."""
    method: str = ""
    seed: int | None = None
    epochs: int | None = None
    recipe: dict[str, Any] = {}
    data: dict[str, Any] = {}
    model: dict[str, Any] = {}
    environment: dict[str, Any] = {}


def read_run(run: Path) -> tuple[RunFile, Result | None]:
    """What a run folder says of the run, and its result if it is finished."""
    stored, result = parsed(RunFile, read_text(run / "run.json"), run / "run.json"), run / "result.json"
    inside = (run.parent.parent / EXPERIMENT).exists()
    stored.experiment = run.parent.parent.name if inside else ""
    stored.method = run.parent.name if inside else stored.method or str(stored.recipe.get("selection", "gradlex"))
    stored.seed = stored.recipe.get("seed", 0) if stored.seed is None else stored.seed
    stored.epochs = stored.recipe.get("epochs") if stored.epochs is None else stored.epochs
    return stored, parsed(Result, read_text(result), result) if result.exists() else None


def _frame(folder: Path) -> pd.DataFrame:
    rows = []
    for file in sorted(folder.rglob("run.json")):
        stored, result = read_run(file.parent)
        known = {name: getattr(stored, name) for name in ("experiment", "method", "seed", "epochs")}
        costs = {name: getattr(result, name, None) for name in _LAST[:-1]}
        metrics = _flat(result.metrics if result else {})
        rows.append({**known, "finished": result is not None, **metrics, **costs, "path": file.parent})
    frame = pd.DataFrame(rows)
    own = [name for name in frame if name not in (*_FIRST, *_LAST)]
    return frame.reindex(columns=[*_FIRST, *own, *_LAST])


_FIRST = ("experiment", "method", "seed", "finished", "epochs")
_LAST = ("samples_trained", "critical_path", "cases_evaluated", "seconds", "path")


def _flat(metrics: Metrics) -> dict[str, float]:
    return {
        f"{part}_{name}": math.nan if value is None else value
        for part, values in metrics.items()
        for name, value in values.items()
    }
