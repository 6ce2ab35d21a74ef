"""Progress of one run: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from gradlex.cli._console import console

if TYPE_CHECKING:
    from gradlex.runs import Chosen, Problem, Record


class Progress:
    """`update` is called with every record, and `notice` with what a person should know, in the context of `bar`."""

    def __init__(
        self, problem: Problem, workers: Chosen, threads: Chosen, path: Path, *, quiet: bool = False
    ) -> None:
        self._total = problem.recipe.require("generations")
        self._console = console()
        self._console.quiet = quiet
        self._started, self._before = time.monotonic(), -1
        self._accuracy = ""
        recipe = problem.recipe
        self._console.print(
            f"{recipe.selection}: {recipe.model} on {recipe.dataset}, "
            f"{len(problem.train):,} training samples, population {recipe.population}, "
            f"{self._total} generations, into {path}",
            soft_wrap=True,
            style="bold",
        )
        self._console.print(
            f"{workers.number} worker(s) ({workers.why}) of {threads.number} thread(s) ({threads.why}) on "
            f"{problem.device}, {recipe.precision}",
            soft_wrap=True,
        )
        self._live = self._console.is_terminal and not quiet
        self.bar = Bar(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._live,
        )
        self._task = self.bar.add_task("", total=self._total)

    def notice(self, text: str) -> None:
        """Say what a person should know."""
        self._console.print(f"note: {text}", soft_wrap=True)

    def update(self, record: Record) -> None:
        """Show one more generation."""
        done = record.generation + 1
        if self._before < 0:
            self._before = record.generation  # a resumed run has done these already
        if record.evaluation is not None:
            self._accuracy = f", test {record.evaluation.accuracy:.2%}"
        if record.ema is not None:
            self._accuracy += f", average {record.ema.accuracy:.2%}"
        text = told(record) + self._accuracy
        if self._live:
            self.bar.update(self._task, completed=done, description=text)
        elif record.evaluation is not None or done in (1, self._total):
            spent = time.monotonic() - self._started
            left = spent / (done - self._before) * (self._total - done)
            self._console.print(f"{done}/{self._total}  {text}, {left:.0f} s left", soft_wrap=True)


def told(record: Record) -> str:
    """One generation in a line."""
    losses = " ".join("diverged" if loss is None else f"{loss:.3f}" for loss in record.losses)
    mean = " ".join(f"{weight:.2f}" for weight in record.weights)
    parent = f"parent {record.selected}" if record.entropy == 0 else f"parent the mean by {mean}"
    return f"lr {record.lr:.4f}, losses {losses}, {parent} ({record.reason}, {record.cases_used} cases)"
