"""Progress: one line per generation above a live bar in a terminal, the lines alone elsewhere."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from gradlex.callbacks.callback import Callback, LiveRun
from gradlex.callbacks.record import Record
from gradlex.recipe import GIVEN

if TYPE_CHECKING:
    from gradlex.tasks import Measure

LINES = 20
"""A longer run leaves a line every n-th generation: 20 to 40 in all."""

ENDINGS = {
    "sole_survivor": "one left after {}",
    "all_failed": "all failed after {}",
    "exhausted": "tied on all {}",
    "best_mean": "best mean of {}",
}
_PARTS = {"validation": "val", "test": "test"}


class Progress(Callback):
    """Prints what is trained, then loss, metrics and selection of about 20 to 40 generations."""

    def __init__(self) -> None:
        self._console = PlainConsole(highlight=False, markup=False)
        self._bar: Bar | None = None

    def on_start(self, run: LiveRun) -> None:
        """Print the header, and start the bar if this is a terminal."""
        total, done = run.recipe.epochs or 0, len(run.history)
        self._step, self._evaluated = max(1, total // LINES), done
        self._parts = [part for part in _PARTS if run.data["samples"].get(part)]
        metric = run.task.measures[0].name.replace("_", " ")
        titles = [f"{_PARTS[part]} {metric}" for part in self._parts]
        self._widths = [10, 8, *(max(len(title), 8) for title in titles)]
        self._console.print(f"{header(run)}\n", style="bold")
        self._console.print(self._line("generation", "loss", *titles, "parent"), style="dim")
        if self._console.is_terminal:
            columns = MofNCompleteColumn(), BarColumn(bar_width=None), TimeRemainingColumn()
            self._bar = Bar(*columns, console=self._console, transient=True, expand=True)
            self._task = self._bar.add_task("", total=total, completed=done)
            self._bar.start()

    def on_generation(self, record: Record, run: LiveRun) -> None:
        """Print the line of this generation, or of every n-th one and those that were evaluated."""
        total, number = run.recipe.epochs or 0, record.generation
        evaluated = record.metrics and number - self._evaluated >= self._step
        if evaluated or number % self._step == 0 or number == total:
            self._evaluated = number if record.metrics else self._evaluated
            primary, loss = run.task.measures[0], record.losses[record.chosen]
            known = [record.metrics.get(part, {}).get(primary.name) for part in self._parts]
            values = ["" if value is None else measured(primary, value) for value in known]
            values.insert(0, "diverged" if loss is None else f"{loss:.4f}")
            place = f"{number:>{len(str(total))}}/{total}"
            self._console.print(self._line(place, *values, how_selected(record)))
        if self._bar is not None:
            self._bar.update(self._task, completed=record.generation)

    def on_end(self, run: LiveRun) -> None:
        """Remove the bar; the lines stay."""
        if self._bar is not None:
            self._bar.stop()

    def _line(self, *cells: str) -> str:
        *numbers, last = cells
        aligned = (f"{cell:>{width}}" for cell, width in zip(numbers, self._widths, strict=True))
        return f"{'  '.join(aligned)}  {last}"


def header(run: LiveRun) -> str:
    """What is trained, where, and how far a generation moves the parent."""
    recipe, samples, environment = run.recipe, run.data["samples"]["train"], run.environment
    size, batch, epochs = recipe.population or 1, recipe.batch_size or samples, recipe.epochs or 0
    population = "" if size == 1 else f" with {size} candidates"
    names = [name for name in (recipe.model, run.data["name"]) if name and name != GIVEN]
    what = f"{recipe.selection}{population}: {' on '.join(names)}{', ' if names else ''}"
    device, processes = environment["device"], environment["processes"]
    place = f"CPU with {counted(environment['threads'], 'thread')}" if device == "cpu" else device
    team = f", {processes} processes" if processes > 1 else ""
    lines = [
        f"{what}{counted(samples, 'sample')}",
        f"{counted(epochs, 'epoch')}, batches of {batch}, {recipe.precision} on {place}{team}",
    ]
    if size > 1:
        own, alone = math.ceil(math.ceil(samples / size) / batch), math.ceil(samples / batch)
        lines.append(f"A generation moves the parent by {counted(own, 'step')}; an epoch of SGD takes {alone}.")
    return "\n".join(lines if run.path is None else [*lines, f"Folder: {shown(run.path)}"])


def how_selected(record: Record) -> str:
    """Who became the parent and why: 2: one left after 13 cases."""
    if len(record.losses) == 1:
        return ""
    if max(record.weights) < 1:
        return f"{record.reason.replace('_', ' ')} of {len(record.losses)}"
    words = ENDINGS.get(record.reason, record.reason.replace("_", " "))
    return f"{record.chosen}: {words.format(counted(record.cases_used, 'case'))}"


def measured(measure: Measure, value: float) -> str:
    """A metric as it is printed: 97.5%, or 0.1234."""
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.1%}" if measure.fraction else f"{value:.4g}"


def counted(number: int, noun: str) -> str:
    """1 case, 1,437 cases"""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown(path: Path) -> str:
    """A path as a person would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def interactive() -> bool:
    """Whether a person watches: in a terminal or in a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return sys.stdout.isatty() or type(shell).__name__ == "ZMQInteractiveShell"


class PlainConsole(Console):
    """A console that goes on in silence if its reader is gone, as after `| head`."""

    def on_broken_pipe(self) -> None:
        """Print into nothing."""
        self.quiet = True
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
