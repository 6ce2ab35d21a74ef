"""Many runs side by side, on this machine or a cluster: one that fails does not stop the others.

A place starts attempts at runs; the loop here listens to them, and waits for runs that another command is running.
Whatever the place, a run has the same name, the same bits and the same files, and an attempt resumes what is there.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import torch

from gradlex._checks import check, check_options
from gradlex.errors import InputError, InterruptedRun
from gradlex.experiments._jobs import Job
from gradlex.experiments._processes import Processes
from gradlex.experiments._run_job import Finished, Refused, Settings
from gradlex.runs import Interrupts

_WAKE = 0.5  # seconds after which a signal is noticed though no run has said anything

On: TypeAlias = Literal["processes", "ray", "slurm"]


class Watcher(Protocol):
    """Receives the progress of the runs."""

    def started(self, job: Job) -> None:
        """A run has begun or is resumed."""

    def moved(self, job: Job, generations: int) -> None:
        """A run has done this many generations."""

    def waiting(self, job: Job) -> None:
        """Another process is running this one; it is waited for at the end."""

    def finished(self, job: Job, *, elsewhere: bool = False) -> None:
        """A run has its result; `elsewhere`: another process brought it there."""

    def failed(self, failure: Failure) -> None:
        """A run has ended without a result."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that ended without a result, and why."""

    job: Job
    reason: str


class Attempt(Protocol):
    """A run that was started somewhere."""

    @property
    def job(self) -> Job:
        """What is run."""
        ...

    @property
    def slot(self) -> int:
        """Its place among those that run at the same time."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        ...

    def listen(self) -> Sequence[int]:
        """The generations that have been done since it was last asked."""
        ...

    def end(self, signum: int) -> None:
        """Ask it, once, to end after the current generation."""
        ...

    def outcome(self) -> Finished | Refused:
        """How it has ended; a process that broke down has refused, and its end is the reason."""
        ...


class Place(Protocol):
    """Where runs are computed: processes of this machine, a cluster. Entered before the first, left after the last."""

    def __enter__(self) -> Place: ...

    def __exit__(self, *exception: object) -> None:
        """End what is still running."""
        ...

    def start(self, job: Job, slot: int) -> Attempt:
        """Run or resume a job."""
        ...

    def wait(self, running: Sequence[Any], seconds: float) -> None:
        """Until something has happened, but not for longer."""
        ...


def place_of(on: On, settings: Settings, options: Mapping[str, Any] | None = None, threads: int = 1) -> Place:
    """The place of this name; what it needs is imported only here."""
    check("on", On, on)
    if on == "ray":
        from gradlex.experiments._ray import RayCluster  # noqa: PLC0415  # an extra

        check_options("--on ray", RayCluster, options or {})
        return RayCluster(settings, threads, **(options or {}))
    if on == "slurm":
        from gradlex.experiments._slurm import Slurm  # noqa: PLC0415  # an extra

        return Slurm(settings, threads, options or {})
    if options:
        raise InputError(
            f"on_options belong to a cluster, got {dict(options)} with on 'processes': leave them out."
        )
    return Processes(settings)


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int,
    device: torch.device,
    data_dir: Path | None = None,
    evaluations: int = 10,
    watcher: Watcher,
    on: On = "processes",
    on_options: Mapping[str, Any] | None = None,
) -> list[Failure]:
    """Run what is not done yet, `at_once` at a time, and return what failed.

    A run that another process is running is left to it, and waited for at the end; if that process stops without a
    result, the run is resumed here. The first Ctrl-C or SIGTERM lets every run end after its generation
    (InterruptedRun); the same jobs resume there. `evaluations` is how often a run is evaluated on the test samples.
    """
    pending = [job for job in jobs if job.state != "done"]
    left, held, failures = list(pending), list[Job](), list[Failure]()
    settings = Settings(device=str(device), data_dir=data_dir, evaluations=evaluations)
    threads = max((int(job.recipe.threads) for job in pending if job.recipe.threads != "auto"), default=1)
    running: list[Attempt] = []
    handle = threading.current_thread() is threading.main_thread()  # no other thread may handle signals
    with Interrupts(handle=handle) as interrupts, place_of(on, settings, on_options, threads) as place:
        while running or ((left or held) and not interrupts.signum):
            slots = set(range(at_once)) - {attempt.slot for attempt in running}
            while left and slots and not interrupts.signum:
                job = _next(left, running, held)
                if job is None:  # all that are left begin with a run that is not there yet
                    break
                left.remove(job)
                if job.state == "done":
                    watcher.finished(job, elsewhere=True)
                elif job.is_held:
                    held.append(job)
                    watcher.waiting(job)
                else:
                    running.append(place.start(job, slots.pop()))
                    watcher.started(job)
            place.wait(running, _WAKE)
            for attempt in list(running):
                over = attempt.is_over  # asked first: what it said last is heard below
                for generations in attempt.listen():
                    watcher.moved(attempt.job, generations)
                if interrupts.signum and not over:
                    attempt.end(interrupts.signum)
                if over:
                    running.remove(attempt)
                    _ended(attempt, watcher, held, failures, interrupted=bool(interrupts.signum))
            idle = _next(left, running, held) is None
            free = [job for job in held if job.state == "done" or not job.is_held] if idle else []
            held = [job for job in held if job not in free]
            left += free
        undone = sum(job.state != "done" for job in pending)
        if interrupts.signum and undone:
            raise InterruptedRun(
                interrupts.signum,
                f"interrupted: {undone} of {len(jobs)} runs are not finished. Rerun the command to continue; finished "
                "runs are skipped.",
            )
    return failures


def _next(left: Sequence[Job], running: Sequence[Attempt], held: Sequence[Job]) -> Job | None:
    """The first job that need not wait for another run, here or elsewhere, to come to where it branches."""
    under_way = {job.folder for job in (*left, *held, *(attempt.job for attempt in running))}
    for job in left:
        if job.begin_with not in under_way or job.beginning is not None or job.state != "to do":
            return job
    return None


def _ended(
    attempt: Attempt, watcher: Watcher, held: list[Job], failures: list[Failure], *, interrupted: bool
) -> None:
    """What becomes of a job whose attempt has ended."""
    outcome = attempt.outcome()
    if isinstance(outcome, Finished):
        watcher.finished(attempt.job, elsewhere=outcome.elsewhere)
    elif outcome.elsewhere:
        held.append(attempt.job)
        watcher.waiting(attempt.job)
    elif not interrupted:
        # One line in tables and lists.
        failures.append(Failure(job=attempt.job, reason=" ".join(outcome.reason.split())))
        watcher.failed(failures[-1])
