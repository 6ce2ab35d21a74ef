"""A run, or a folder of runs, in a terminal: a summary with sparklines, and a line per run."""

from __future__ import annotations

import math
import os
import shlex
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from gradlex.callbacks import Record
from gradlex.errors import InputError, unknown_name
from gradlex.report._decisions import decisions, decisive
from gradlex.report._format import NONE, count, duration, number_of, plain
from gradlex.report._outcome import read_run
from gradlex.report._run_words import (
    measures_of,
    method_of,
    selection_words,
    setting_of,
    shown_value,
    state_of,
)
from gradlex.runs import RunFolder, StoredRun
from gradlex.tasks import Measure

WIDTH = 80
"""Columns of a terminal, at least."""
BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-~=+*#"
"""For a terminal that cannot print blocks."""
_SPARKS = 36
"""Columns of a sparkline."""

Order: TypeAlias = Literal["age", "metric", "name", "state"]
State: TypeAlias = Literal["finished", "stopped", "running", "interrupted", "damaged"]


# One run


def show_run(path: Path | str, *, blocks: bool = True) -> str:
    """What a run reached, how it came there and what it cost, within 80 columns.

    Without `blocks` sparklines are drawn in ASCII.

    Examples:
        >>> from gradlex.report import show_run
        >>> text = show_run("runs/mine")
        >>> max(map(len, text.splitlines())) <= 80
        True
    """
    run = read_run(Path(path))
    measures, records = measures_of(run), run.generations
    lines = [f"{setting_of(run.recipe)}: {method_of(run.recipe)}", state_of(run), ""]
    lines += [
        *_metric_lines(run, measures),
        "",
        *_sparklines(records, measures, BLOCKS if blocks else ASCII),
        "",
    ]
    if run.result is not None:
        result = run.result
        lines.append(
            f"{number_of(result['generations'], 'generation')}, {count(result['samples_trained'])} samples trained, "
            f"{count(result['cases_evaluated'])} cases evaluated, {duration(result['seconds'])}"
        )
    lines += selection_words(run)
    most = [each for each in decisive(decisions(records)) if each.eliminated][:5]
    if most:
        told = ", ".join(f"#{each.case} ({each.eliminated})" for each in most)
        lines.append(f"Most decisive cases (candidates eliminated): {told}.")
    page = f"gradlex report {shlex.quote(str(run.path))} --open"
    return "\n".join([*_wrapped(lines), f"page: {plain(page)}"])


def sparkline(values: Sequence[float | None], width: int = _SPARKS, blocks: str = BLOCKS) -> str:
    """Values as blocks from the lowest to the highest; more than `width` of them are averaged, a gap is a space.

    Examples:
        >>> from gradlex.report import sparkline
        >>> sparkline([0.1, 0.4, 0.6, 0.7, None, 0.8])
        '▁▄▆▇ █'
    """
    size = max(1, math.ceil(len(values) / width))
    means = [_mean(values[start : start + size]) for start in range(0, len(values), size)]
    found = [value for value in means if value is not None]
    if not found:
        return ""
    low, high = min(found), max(found)
    steps = len(blocks) - 1
    return "".join(
        " " if value is None else blocks[round((value - low) / (high - low) * steps) if high > low else 0]
        for value in means
    )


def _metric_lines(run: StoredRun, measures: Sequence[Measure]) -> list[str]:
    if run.result is not None:
        parts = run.result["metrics"]
    else:
        evaluated = [record.metrics for record in run.generations if record.metrics]
        parts = evaluated[-1] if evaluated else {}
    words = {"test": "test", "validation": "validation", "train": "training", "ema": "moving average"}
    return [
        f"{title:15}"
        + ", ".join(
            f"{measure.name} {shown_value(parts[part].get(measure.name), measure)}" for measure in measures
        )
        for part, title in words.items()
        if part in parts
    ] or ["nothing was evaluated yet"]


def _sparklines(records: Sequence[Record], measures: Sequence[Measure], blocks: str) -> list[str]:
    lines = []
    for measure in measures[:1]:
        values = [
            record.test[measure.name] for record in records if record.test and measure.name in record.test
        ]
        lines.append(_line(f"test {measure.name}", values, partial(shown_value, measure=measure), blocks))
    means = [_mean(record.losses) for record in records]
    losses = [math.log10(loss) if loss is not None and loss > 0 else None for loss in means]
    lines.append(_line("training loss", losses, lambda value: f"{10**value:.3g}", blocks))
    if any(record.cases_used for record in records):
        used = [math.log10(max(1, record.cases_used)) for record in records]
        lines.append(_line("cases used", used, lambda value: f"{10**value:,.0f}", blocks))
    lines.append(
        _line("learning rate", [record.lr for record in records], lambda value: f"{value:.3g}", blocks)
    )
    return [line for line in lines if line]


def _line(name: str, values: Sequence[float | None], show: Callable[[float], str], blocks: str) -> str:
    found = [value for value in values if value is not None and math.isfinite(value)]
    if not found:
        return ""
    finite = [value if value is not None and math.isfinite(value) else None for value in values]
    return f"{plain(name)[:14]:15}{sparkline(finite, blocks=blocks):{_SPARKS}}  {show(found[0])} to {show(found[-1])}"


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _wrapped(lines: Iterable[str]) -> list[str]:
    return [part for line in lines for part in (textwrap.wrap(line, WIDTH) if line else [""])]


# Many runs


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """One run of a folder.

    Examples:
        >>> from gradlex.report import list_runs
        >>> best = list_runs("runs", sort="metric")[0]
        >>> best.measure.name, best.value is not None
        ('accuracy', True)
    """

    path: Path
    state: State
    method: str
    setting: str
    done: int
    generations: int | None
    measure: Measure | None
    value: float | None
    """The primary metric on the test samples, of the result or of the last evaluation."""
    changed: float
    """When its files last changed, in seconds since 1970."""

    def cells(self, folder: Path, now: float) -> tuple[str, ...]:
        """As a row under COLUMNS: the run's path is seen from a folder, its age at a time."""
        shown = self.measure is not None and self.value is not None
        return (
            os.path.relpath(self.path, folder),
            f"{self.setting}: {self.method}" if self.setting != NONE else NONE,
            f"{self.measure.name} {shown_value(self.value, self.measure)}"
            if shown and self.measure
            else NONE,
            f"{self.done:,}" + ("" if self.generations is None else f"/{self.generations:,}"),
            self.state,
            _age(now - self.changed),
        )


COLUMNS = ("run", "what", "test metric", "generations", "state", "age")


def list_runs(folder: Path | str, *, sort: Order = "age") -> list[RunLine]:
    """The runs below a folder: the newest first, the best metric first, or by name or state.

    Examples:
        >>> from gradlex.report import list_runs
        >>> runs = list_runs("runs", sort="name")
        >>> {run.state for run in runs}
        {'finished'}
    """
    if sort not in get_args(Order):
        raise unknown_name("order", str(sort), get_args(Order))
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: name one that holds runs, such as runs.")
    lines = [_run_line(path) for path in _run_folders(folder)]
    keys: dict[str, Callable[[RunLine], Any]] = {
        "age": lambda line: (-line.changed, str(line.path)),
        "metric": _by_metric,
        "name": lambda line: str(line.path),
        "state": lambda line: (get_args(State).index(line.state), -line.changed),
    }
    return sorted(lines, key=keys[sort])


def _run_folders(folder: Path) -> list[Path]:
    found = []
    for place, folders, files in os.walk(folder):
        if "recipe.json" in files:
            found.append(Path(place))
            folders.clear()  # no run is inside another
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    return found


def _run_line(path: Path) -> RunLine:
    changed = max((file.stat().st_mtime for file in path.glob("*.json*")), default=path.stat().st_mtime)
    try:
        run = read_run(path)
    except InputError:
        return RunLine(
            path=path,
            state="damaged",
            method=NONE,
            setting=NONE,
            done=0,
            generations=None,
            measure=None,
            value=None,
            changed=changed,
        )
    measures = measures_of(run)
    if run.result is not None:
        state: State = "stopped" if run.result.get("stopped") else "finished"
        metrics = run.result["metrics"].get("test") or {}
    else:
        state = "running" if RunFolder(path).is_held else "interrupted"
        metrics = next((record.test for record in reversed(run.generations) if record.test), {})
    measure = measures[0] if measures else None
    return RunLine(
        path=path,
        state=state,
        method=method_of(run.recipe),
        setting=setting_of(run.recipe),
        done=len(run.generations),
        generations=run.recipe.generations,
        measure=measure,
        value=None if measure is None else metrics.get(measure.name),
        changed=changed,
    )


def _by_metric(line: RunLine) -> tuple[int, str, float, str]:
    if line.measure is None or line.value is None or not math.isfinite(line.value):
        return 1, "", 0.0, str(line.path)
    better = -line.value if line.measure.higher_is_better else line.value
    return 0, line.measure.name, better, str(line.path)


def _age(seconds: float) -> str:
    for size, letter in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {letter}"
    return f"{max(0, seconds):.0f} s"
