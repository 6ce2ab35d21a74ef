"""Progress of many runs: one live bar on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn

from gradlex._console import console, metric_words, plural, printable
from gradlex.experiments._jobs import Job
from gradlex.experiments._run_jobs import Failure


class ExperimentProgress:
    """Prints how the runs of an experiment are getting on (a `Watcher`); its context shows the bar."""

    def __init__(self, jobs: Sequence[Job], at_once: int, root: Path, *, quiet: bool = False) -> None:
        self._console = console()
        self._console.quiet = quiet
        self._started = time.monotonic()
        self._done = {job.folder: job.generations_done for job in jobs}
        self._all = {job.folder: job.recipe.require("generations") for job in jobs}
        self._before = sum(self._done.values())  # earlier sittings say nothing about this one's speed
        self._finished = sum(job.state == "done" for job in jobs)
        self._running: set[Path] = set()
        self._elsewhere: set[Path] = set()
        done = f", {self._finished} already done" if self._finished else ""
        self._say(f"{plural(len(jobs), 'run')}{done}, {at_once} at a time, in {root}")
        self._bar = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=sum(self._all.values()))

    def __enter__(self) -> ExperimentProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def started(self, job: Job) -> None:
        """Say which run begins or is resumed."""
        self._running.add(job.folder)
        self._elsewhere.discard(job.folder)
        self._say(f"{'resumed' if job.state == 'interrupted' else 'started'}: {job.title}")

    def moved(self, job: Job, generations: int) -> None:
        """Show how far all runs have come."""
        self._done[job.folder] = generations
        self._show()

    def waiting(self, job: Job) -> None:
        """Say, once, that another process is running this one."""
        self._running.discard(job.folder)
        if job.folder not in self._elsewhere:
            self._elsewhere.add(job.folder)
            self._say(f"running in another process: {job.title}")

    def finished(self, job: Job, *, elsewhere: bool = False) -> None:
        """Say what a run has reached."""
        self._finished += 1
        self._done[job.folder] = self._all[job.folder]
        by = " (by another process)" if elsewhere else ""
        self._over(job, f"{self._finished} of {len(self._all)} done{by}: {job.title}{_reached(job)}")

    def failed(self, failure: Failure) -> None:
        """Say that a run has failed; the others continue."""
        job = failure.job
        self._all[job.folder] = self._done[job.folder]  # nothing more comes of it
        self._over(job, f"failed: {job.title}: {failure.reason}")

    def _over(self, job: Job, text: str) -> None:
        self._running.discard(job.folder)
        left = self._left()
        self._say(text + (f"; about {rough_time(left)} left" if left and self._running else ""))
        self._show()

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def _show(self) -> None:
        done = sum(self._done.values())
        left = self._left()
        text = f"{self._finished}/{len(self._all)} runs, {done:,}/{sum(self._all.values()):,} generations"
        text += f", {rough_time(left)} left" if left else ""
        self._bar.update(self._task, completed=done, description=printable(text))

    def _left(self) -> float | None:
        done = sum(self._done.values())
        if done <= self._before:
            return None
        return (time.monotonic() - self._started) / (done - self._before) * (sum(self._all.values()) - done)


def _reached(job: Job) -> str:
    """The primary metric on the test samples."""
    result = job.result
    metrics, measures = result.get("metrics", {}).get("test"), result.get("measures", [])[:1]
    first = {each["name"]: metrics[each["name"]] for each in measures if metrics and each["name"] in metrics}
    return f", test {metric_words(first, measures)}" if first else ""


def rough_time(seconds: float) -> str:
    """An estimated duration, in one unit."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 86_400:.0f} days"
