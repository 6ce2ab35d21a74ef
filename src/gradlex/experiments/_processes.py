"""Many runs side by side, each in a process of its own: one that fails does not stop the others.

The parent starts the processes, listens to them and waits for runs that another command is running; a child runs one
job and reports each generation. What a child prints reaches the parent, which keeps it only if the child breaks down.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

import torch

from gradlex import _devices
from gradlex.callbacks import Callback, LiveRun, Record
from gradlex.data import Arrays, load
from gradlex.errors import BusyError, InputError, InterruptedRun, RunError
from gradlex.experiments._jobs import Job
from gradlex.recipe import Recipe
from gradlex.runs import Execution, Interrupts, Named, deaf, start

_WAKE = 0.5  # seconds after which a signal is noticed though no run has said anything
_KEPT = 100_000  # bytes of what a child printed last


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


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int,
    device: torch.device,
    data_dir: Path | None = None,
    evaluations: int = 10,
    watcher: Watcher,
) -> list[Failure]:
    """Run what is not done yet, `at_once` at a time, and return what failed.

    A run that another process is running is left to it, and waited for at the end; if that process stops without a
    result, the run is resumed here. The first Ctrl-C or SIGTERM lets every run end after its generation
    (InterruptedRun); the same jobs resume there. `evaluations` is how often a run is evaluated on the test samples.
    """
    pending = [job for job in jobs if job.state != "done"]
    left, held, failures = list(pending), list[Job](), list[Failure]()
    handle = threading.current_thread() is threading.main_thread()  # no other thread may handle signals
    with Interrupts(handle=handle) as interrupts, _processes() as running:
        while running or ((left or held) and not interrupts.signum):
            slots = set(range(at_once)) - {child.slot for child in running}
            while left and slots and not interrupts.signum:
                job = _next(left, running)
                if job is None:  # all that are left begin with a run that is not there yet
                    break
                left.remove(job)
                if job.state == "done":
                    watcher.finished(job, elsewhere=True)
                elif job.is_held:
                    held.append(job)
                    watcher.waiting(job)
                else:
                    running.append(_start(job, slots.pop(), device, data_dir, evaluations))
                    watcher.started(job)
            _wait(running)
            for child in list(running):
                _listen(child, watcher)
                if interrupts.signum:
                    child.end(interrupts.signum)
                if not child.process.is_alive():
                    _listen(child, watcher)  # what it said last
                    running.remove(child)
                    _ended(child, watcher, held, failures, interrupted=bool(interrupts.signum))
            free = [job for job in held if job.state == "done" or not job.is_held] if not left else []
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


def _next(left: Sequence[Job], running: Sequence[_Child]) -> Job | None:
    """The first job that need not wait for another run to come to where it branches."""
    under_way = {*(child.job.folder for child in running), *(job.folder for job in left)}
    for job in left:
        if job.begin_with not in under_way or job.beginning is not None or job.state != "to do":
            return job
    return None


@dataclass(kw_only=True)
class _Child:
    """One run's process, as its parent sees it."""

    job: Job
    slot: int
    process: BaseProcess
    pipe: Connection
    output: Connection
    printed: bytearray = field(default_factory=bytearray)
    last: _Finished | _Refused | None = None
    trains: bool = False
    """Whether it has come to its first generation."""
    asked_to_end: bool = False

    def end(self, signum: int) -> None:
        """Ask it, once, to end after the current generation; before the first there is nothing to wait for."""
        if not self.trains:
            self.process.kill()
        elif not self.asked_to_end:
            self.asked_to_end = True
            with suppress(OSError):  # it has ended by itself
                self.pipe.send(signum)

    @property
    def log(self) -> Path:
        """Where what it printed is kept if it breaks down."""
        return self.job.folder.with_name(f"{self.job.folder.name}.log")


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """The first generation begins."""


@dataclass(frozen=True, kw_only=True)
class _Moved:
    """So many generations are done."""

    generations: int


@dataclass(frozen=True, kw_only=True)
class _Finished:
    """The run has its result."""

    elsewhere: bool = False
    """Another process has brought it there since this one was started."""


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """The run ended without one, and says why."""

    reason: str
    elsewhere: bool = False
    """Another process is running it."""


@contextmanager
def _processes() -> Iterator[list[_Child]]:
    """The runs that are going on; none is left behind."""
    running: list[_Child] = []
    try:
        yield running
    finally:
        for child in running:
            child.process.kill()
            child.process.join()


def _start(job: Job, slot: int, device: torch.device, data_dir: Path | None, evaluations: int) -> _Child:
    device = _devices.own(device, slot)  # a GPU for each slot, as far as they go
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    output, printed = spawn.Pipe(duplex=False)
    process = spawn.Process(
        target=_run_child,
        args=(theirs, printed, job, str(device), data_dir, evaluations),
    )
    with deaf():
        process.start()
    theirs.close()
    printed.close()
    return _Child(job=job, slot=slot, process=process, pipe=ours, output=output)


def _wait(running: Sequence[_Child]) -> None:
    """Until a run says something, prints something or ends, but not for long."""
    if not running:
        time.sleep(_WAKE)
        return
    pipes = [handle for child in running for handle in (child.pipe, child.output) if not handle.closed]
    wait([*pipes, *(child.process.sentinel for child in running)], timeout=_WAKE)


def _listen(child: _Child, watcher: Watcher) -> None:
    try:
        while not child.output.closed and child.output.poll():
            part = os.read(child.output.fileno(), 1 << 16)
            if not part:
                child.output.close()
            child.printed += part
            del child.printed[:-_KEPT]
    except OSError:  # where a pipe has no file descriptor, or nobody is at its other end any more
        child.output.close()
    try:
        while not child.pipe.closed and child.pipe.poll():
            said = child.pipe.recv()
            child.trains = True
            if isinstance(said, _Moved):
                watcher.moved(child.job, said.generations)
            elif not isinstance(said, _Begun):
                child.last = said
    except (EOFError, OSError):  # the process has ended; its exit code tells the rest
        child.pipe.close()


def _ended(
    child: _Child, watcher: Watcher, held: list[Job], failures: list[Failure], *, interrupted: bool
) -> None:
    """What becomes of a job whose process has ended."""
    if isinstance(child.last, _Finished):
        child.log.unlink(missing_ok=True)
        watcher.finished(child.job, elsewhere=child.last.elsewhere)
    elif isinstance(child.last, _Refused) and child.last.elsewhere:
        held.append(child.job)
        watcher.waiting(child.job)
    elif not interrupted:
        failures.append(_failure(child))
        watcher.failed(failures[-1])


def _failure(child: _Child) -> Failure:
    if isinstance(child.last, _Refused):
        return Failure(
            job=child.job, reason=" ".join(child.last.reason.split())
        )  # one line in tables and lists
    code = child.process.exitcode or 0
    reason = f"its process {_ending(code)}"
    printed = child.printed.decode(errors="replace").strip()
    if printed:
        with suppress(OSError):  # a full disk is why it broke down, perhaps
            child.log.parent.mkdir(parents=True, exist_ok=True)
            child.log.write_text(f"{printed}\n", encoding="utf-8")
        where = Path(child.log.parent.name, child.log.name)  # in the experiment's folder, wherever that is
        reason = f"{reason}: {printed.splitlines()[-1]} (the rest is in {where})"
    return Failure(job=child.job, reason=reason)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed ({name}){', probably out of memory' if name == 'SIGKILL' else ''}"


# What happens in a child's process.


def _run_child(
    pipe: Connection,
    printed: Connection,
    job: Job,
    device: str,
    data_dir: Path | None,
    evaluations: int,
) -> None:
    """Run or resume to the result; report each generation; anything received ends the run after the current one."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if os.name == "posix":
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
    else:  # where signals cannot be blocked before the process starts, and Ctrl-C reaches all of them
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        arrays = _unchanged(job.recipe, job.fingerprint, data_dir)
        elsewhere = (job.folder / "result.json").exists()  # then only its result is read
        execution = Execution(
            workers=1,
            device=device,
            evaluate_every=max(1, job.recipe.require("generations") // evaluations),
            keep_checkpoints=job.keep_checkpoints,
            begin_with=job.beginning,
        )
        start(
            Named(data_dir=data_dir, arrays=arrays),
            job.recipe,
            execution,
            out=job.folder,
            resume=True,
            callbacks=(_Reporter(pipe),),
        )
        pipe.send(_Finished(elsewhere=elsewhere))
    except InterruptedRun:
        pass
    except (RunError, InputError) as error:
        pipe.send(_Refused(reason=str(error), elsewhere=isinstance(error, BusyError)))


def _unchanged(recipe: Recipe, fingerprint: str, data_dir: Path | None) -> Arrays:
    """The data that the run's name stands for: no other may be trained on under it."""
    arrays = load(recipe, data_dir)
    if arrays.fingerprint() != fingerprint:
        raise InputError(f"{recipe.dataset} has changed since the experiment began: rerun the command.")
    return arrays


class _Reporter(Callback):
    """Tells the parent each generation, and ends the run on the parent's signal."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def on_start(self, run: LiveRun) -> None:
        """All is there, and training begins."""
        self._pipe.send(_Begun())

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """One more is done."""
        self._pipe.send(_Moved(generations=record.generation + 1))
        if self._pipe.poll():
            raise InterruptedRun(self._pipe.recv(), "")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # the newest checkpoint is whole, and rerunning the experiment resumes there
