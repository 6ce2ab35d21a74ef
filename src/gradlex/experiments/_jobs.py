"""Many runs, several at a time, each in a process of its own: one that fails does not stop the others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

import torch

from gradlex.errors import InterruptedRun
from gradlex.experiments._child import Finished, Moved, Refused, log_path, run_child
from gradlex.experiments._prepare import Job
from gradlex.runs import Interrupts, deaf

_WAKE = 0.5  # seconds after which a signal is noticed though no run has said anything


class Watcher(Protocol):
    """What is told how the runs get on."""

    def started(self, job: Job) -> None:
        """A run has begun, or goes on."""

    def moved(self, job: Job, generations: int) -> None:
        """A run has done so many generations."""

    def finished(self, job: Job, test_accuracy: float | None) -> None:
        """A run has its result."""

    def failed(self, failure: Failure) -> None:
        """A run has ended without one."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that ended without a result, and why."""

    job: Job
    reason: str
    elsewhere: bool = False
    """Another process is at it, and may yet bring it to its result."""


@dataclass(kw_only=True)
class _Running:
    job: Job
    slot: int
    process: BaseProcess
    pipe: Connection
    last: Finished | Refused | None = None
    asked_to_end: bool = False


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int,
    device: torch.device,
    data_dir: Path | None,
    evaluations: int,
    watcher: Watcher,
) -> list[Failure]:
    """Run what is not done yet, `at_once` at a time, and return what failed.

    The first Ctrl-C or SIGTERM lets every run end after its generation (InterruptedRun); the same jobs started
    again go on there. `evaluations` is how often a run is tested.
    """
    pending = [job for job in jobs if job.state != "done"]
    left, failures = list(pending), list[Failure]()
    with Interrupts(handle=True) as interrupts, _processes() as running:
        while running or (left and not interrupts.signum):
            slots = set(range(at_once)) - {run.slot for run in running}
            while left and slots and not interrupts.signum:
                running.append(_start(left.pop(0), slots.pop(), device, data_dir, evaluations))
                watcher.started(running[-1].job)
            wait([handle for run in running for handle in (run.pipe, run.process.sentinel)], timeout=_WAKE)
            for run in list(running):
                if interrupts.signum and not run.asked_to_end:
                    run.asked_to_end = True
                    with suppress(OSError):  # it has ended by itself
                        run.pipe.send(interrupts.signum)
                _listen(run, watcher)
                if not run.process.is_alive():
                    _listen(run, watcher)  # what it said last
                    running.remove(run)
                    if isinstance(run.last, Finished):
                        watcher.finished(run.job, run.last.test_accuracy)
                    elif not interrupts.signum:
                        failures.append(_failure(run))
                        watcher.failed(failures[-1])
        undone = sum(job.state != "done" for job in pending)
        if interrupts.signum and undone:
            raise InterruptedRun(
                interrupts.signum,
                f"interrupted with {undone} of {len(jobs)} runs to do or to finish; the same command goes on there",
            )
    return failures


@contextmanager
def _processes() -> Iterator[list[_Running]]:
    """The runs that are going on; none is left behind."""
    running: list[_Running] = []
    try:
        yield running
    finally:
        for run in running:
            run.process.kill()
            run.process.join()


def _start(job: Job, slot: int, device: torch.device, data_dir: Path | None, evaluations: int) -> _Running:
    if device.type == "cuda" and device.index is None:  # an accelerator for each slot, as far as they go
        device = torch.device("cuda", slot % torch.cuda.device_count())
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=run_child,
        args=(theirs, job.recipe, job.fingerprint, job.folder, str(device), data_dir, evaluations),
    )
    with deaf():
        process.start()
    theirs.close()
    return _Running(job=job, slot=slot, process=process, pipe=ours)


def _listen(run: _Running, watcher: Watcher) -> None:
    try:
        while run.pipe.poll():
            said = run.pipe.recv()
            if isinstance(said, Moved):
                watcher.moved(run.job, said.generations)
            else:
                run.last = said
    except (EOFError, OSError):  # the process has ended; its exit code tells the rest
        return


def _failure(run: _Running) -> Failure:
    if isinstance(run.last, Refused):
        reason = " ".join(run.last.reason.split())  # tables and lists have it in one line
        return Failure(job=run.job, reason=reason, elsewhere=run.last.elsewhere)
    log = log_path(run.job.folder, run.process.pid or 0)
    said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    code = run.process.exitcode or 0
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    where = Path(log.parent.name, log.name)  # in the experiment's folder, wherever that is
    told = f": {said[-1]} (all of it in {where})" if said else ""
    return Failure(job=run.job, reason=f"its process {ended}{told}")
