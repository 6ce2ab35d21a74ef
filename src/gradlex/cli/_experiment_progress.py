"""Progress of many runs: one live bar on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn

from gradlex.cli._console import console
from gradlex.experiments import Failure, Job


class ExperimentProgress:
    """Is told how the runs of an experiment get on (`gradlex.experiments.Watcher`), in the context of `bar`."""

    def __init__(
        self, jobs: Sequence[Job], at_once: int, root: Path, failed: Callable[[Failure], None]
    ) -> None:
        self._console, self._failed = console(), failed
        self._started = time.monotonic()
        self._done = {job.folder: job.generations_done for job in jobs}
        self._all = {job.folder: job.recipe.require("generations") for job in jobs}
        self._before = sum(self._done.values())  # what earlier sittings did tells nothing of this one's speed
        self._finished = sum(job.state == "done" for job in jobs)
        self._running: dict[Path, str] = {}
        self._console.print(
            f"{len(self._all)} runs, {self._finished} of them done already, {at_once} at a time, into {root}",
            soft_wrap=True,
        )
        self.bar = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self.bar.add_task("", total=sum(self._all.values()))

    def started(self, job: Job) -> None:
        """Say which run begins or goes on."""
        word = "goes on" if job.state == "interrupted" else "begins"
        self._running[job.folder] = job.title
        self._say(f"{word}: {job.title}")

    def moved(self, job: Job, generations: int) -> None:
        """Show how far all runs have come."""
        self._done[job.folder] = generations
        self._show()

    def finished(self, job: Job, test_accuracy: float | None) -> None:
        """Say what a run has reached."""
        self._finished += 1
        reached = "" if test_accuracy is None else f", test accuracy {test_accuracy:.2%}"
        self._over(job, f"{self._finished} of {len(self._all)} done: {job.title}{reached}")

    def failed(self, failure: Failure) -> None:
        """Say that a run has failed; the others go on."""
        self._failed(failure)
        job = failure.job
        self._all[job.folder] = self._done[job.folder]  # nothing more comes of it
        self._over(job, f"failed: {job.title}: {failure.reason}")

    def _over(self, job: Job, text: str) -> None:
        self._running.pop(job.folder, None)
        left = self._left()
        self._say(text + (f"; about {rough_time(left)} left" if left and self._running else ""))
        self._show()

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def _show(self) -> None:
        done = sum(self._done.values())
        left = self._left()
        told = f"{self._finished}/{len(self._all)} runs, {done:,}/{sum(self._all.values()):,} generations"
        self.bar.update(
            self._task, completed=done, description=told + (f", {rough_time(left)} left" if left else "")
        )

    def _left(self) -> float | None:
        done = sum(self._done.values())
        if done <= self._before:
            return None
        return (time.monotonic() - self._started) / (done - self._before) * (sum(self._all.values()) - done)


def rough_time(seconds: float) -> str:
    """A guessed length of time, in one unit; the report tells measured ones in two."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 86_400:.0f} days"
