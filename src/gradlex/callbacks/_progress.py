"""Progress of one run: a live bar in a terminal or notebook, plain lines elsewhere."""

from __future__ import annotations

import html
import importlib
import sys
import time
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column

from gradlex._console import console, one_line, plural
from gradlex.callbacks._callback import Callback, LiveRun
from gradlex.callbacks._record import Metrics, Record
from gradlex.recipe import GIVEN


class Progress(Callback):
    """Shows generation, time left and the test metric; losses and selection as far as the line is wide."""

    def __init__(self) -> None:
        self._console = console()
        self._notebook = _notebook_display()
        self._bar: Bar | None = None

    def on_start(self, run: LiveRun) -> None:
        """Say in one line what is trained, where and how."""
        self._total = run.recipe.require("generations")
        self._started, self._before = time.monotonic(), len(run.records)
        self._latest: dict[str, Metrics] = {}
        for record in run.records:
            self._latest |= record.metrics
        self._metric = _metrics(run, self._latest)
        if self._notebook is None:
            self._console.print(headline(run), soft_wrap=True, style="bold")
        if self._console.is_terminal and self._notebook is None:
            self._bar = Bar(
                TextColumn("{task.completed}/{task.total}"),
                BarColumn(bar_width=12),
                TimeRemainingColumn(compact=True),
                TextColumn("{task.fields[metric]}", markup=False),
                # What does not fit gives way.
                TextColumn(
                    "{task.description}",
                    markup=False,
                    table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
                ),
                console=self._console,
                expand=True,
            )
            self._task = self._bar.add_task(
                "", total=self._total, completed=self._before, metric=self._metric
            )
            self._bar.start()
        elif self._notebook is not None:
            self._notebook(headline(run))

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """Show one more generation."""
        done = record.generation + 1
        self._latest |= record.metrics
        self._metric = _metrics(run, self._latest)
        spent = time.monotonic() - self._started
        left = spent / (done - self._before) * (self._total - done)
        parts = (f"{done}/{self._total}", f"{left:.0f} s left", self._metric, describe(record))
        line = "  ".join(part for part in parts if part)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, metric=self._metric, description=describe(record))
        elif self._notebook is not None:
            self._notebook(f"{headline(run)}\n{line}")
        elif record.test or done in (1, self._total) or (record.metrics and not run.data["test_samples"]):
            self._console.print(line, soft_wrap=True)

    def on_end(self, run: LiveRun) -> None:
        """Leave the last line where it is, and give the terminal back."""
        if self._bar is not None:
            self._bar.stop()


def headline(run: LiveRun) -> str:
    """What is trained, where and how, in one line."""
    recipe = run.recipe
    device = "CPU" if run.device == "cpu" else run.device
    threads = (
        f" x {plural(int(recipe.threads), 'thread')}"
        if run.device == "cpu" and recipe.threads != "auto"
        else ""
    )
    selection = recipe.method if isinstance(recipe.method, str) else recipe.method.__name__
    population = "" if recipe.population == 1 else f", p = {recipe.population}"
    where = ""
    if run.path is not None:
        below = run.path.is_relative_to(Path.cwd())
        where = f" -> {run.path.relative_to(Path.cwd()) if below else run.path}"
    names = "" if GIVEN in (recipe.model, recipe.dataset) else f"{recipe.model} on {recipe.dataset}, "
    return one_line(
        f"{selection}: {names}{plural(run.data['train_samples'], 'sample')}{population}, "
        f"{plural(recipe.require('generations'), 'generation')}; {plural(run.workers, 'worker')}{threads} on {device}, "
        f"{recipe.precision}{where}"
    )


def describe(record: Record) -> str:
    """One generation in a line, what matters most first."""
    losses = " ".join("diverged" if loss is None else f"{loss:.3f}" for loss in record.losses)
    mean = " ".join(f"{weight:.2f}" for weight in record.weights)
    parent = f"parent {record.selected}" if record.entropy == 0 else f"mean, weights {mean}"
    reason = f"{record.reason}, {plural(record.cases_used, 'case')}" if record.cases_used else record.reason
    return f"loss {losses}  {parent} ({reason})  lr {record.lr:.4g}"


def format_metric(run: LiveRun, metrics: Metrics) -> str:
    """The primary metric as it is printed."""
    primary = run.measures[0]
    value = metrics[primary.name]
    return f"{value:.2%}" if primary.fraction else f"{primary.name} {value:.4g}"


def _metrics(run: LiveRun, metrics: Any) -> str:
    words = {"validation": "validation", "test": "test", "ema": "average"}
    return ", ".join(
        f"{words[part]} {format_metric(run, metrics[part])}" for part in words if part in metrics
    )


def interactive() -> bool:
    """Whether a person watches: in a terminal or in a notebook."""
    return console().is_terminal or _in_notebook()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _notebook_display() -> Any:
    """A function that shows a text in place of the last one in a notebook; None outside of one.

    By IPython's own display handle: rich and tqdm would need widgets to be installed.
    """
    if not _in_notebook():
        return None
    shown = importlib.import_module("IPython.display")  # there in a notebook, and needed only there
    handle = shown.display(shown.HTML(""), display_id=True)
    return lambda text: handle.update(shown.HTML(f"<pre>{html.escape(text)}</pre>"))
