"""Runs in processes of this machine: the parent starts them and listens, each child runs one job and reports.

What a child prints reaches the parent, which keeps it only if the child breaks down.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from gradlex import _devices
from gradlex.callbacks import Callback, LiveRun, Record
from gradlex.errors import InterruptedRun
from gradlex.experiments._jobs import Job
from gradlex.experiments._run_job import Finished, Refused, Settings, run_job
from gradlex.runs import deaf

_KEPT = 100_000  # bytes of what a child printed last


class Processes:
    """Each run in a process of its own, on this machine."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started: list[Child] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        """None is left behind."""
        for child in self._started:
            if child.process.is_alive():
                child.process.kill()
            child.process.join()

    def start(self, job: Job, slot: int) -> Child:
        """Start its process; a GPU for each slot, as far as they go."""
        self._started = [child for child in self._started if not child.is_over]
        device = _devices.own(torch.device(self._settings.device), slot)
        settings = replace(self._settings, device=str(device))
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        output, printed = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_run_child, args=(theirs, printed, job, settings))
        with deaf():
            process.start()
        theirs.close()
        printed.close()
        if os.name != "posix":  # a pipe has no file descriptor there, for what is printed to go to
            output.close()
        self._started.append(Child(job=job, slot=slot, process=process, pipe=ours, output=output))
        return self._started[-1]

    def wait(self, running: Sequence[Child], seconds: float) -> None:
        """Until a run says something, prints something or ends, but not for long."""
        if not running:
            time.sleep(seconds)
            return
        pipes = [handle for child in running for handle in (child.pipe, child.output) if not handle.closed]
        wait([*pipes, *(child.process.sentinel for child in running)], timeout=seconds)


@dataclass(kw_only=True)
class Child:
    """One run's process, as its parent sees it."""

    job: Job
    slot: int
    process: BaseProcess
    pipe: Connection
    output: Connection
    printed: bytearray = field(default_factory=bytearray)
    last: Finished | Refused | None = None
    asked_to_end: bool = False
    trains: bool = False
    """Whether it has come to its first generation."""

    @property
    def is_over(self) -> bool:
        """Whether its process has ended."""
        return not self.process.is_alive()

    def end(self, signum: int) -> None:
        """Ask it, once, to end after the current generation; before the first there is nothing to wait for."""
        if self.asked_to_end:
            return
        self.asked_to_end = True
        if not self.trains:
            self.process.kill()
            return
        with suppress(OSError):  # it has ended by itself
            self.pipe.send(signum)

    def listen(self) -> list[int]:
        """What it has said and printed meanwhile."""
        try:
            while not self.output.closed and self.output.poll():
                part = os.read(self.output.fileno(), 1 << 16)
                if not part:
                    self.output.close()
                self.printed += part
                del self.printed[:-_KEPT]
        except OSError:  # nobody is at its other end any more
            self.output.close()
        generations = []
        try:
            while not self.pipe.closed and self.pipe.poll():
                said = self.pipe.recv()
                self.trains = True
                if isinstance(said, _Moved):
                    generations.append(said.generations)
                elif not isinstance(said, _Begun):
                    self.last = said
        except (EOFError, OSError):  # the process has ended; its exit code tells the rest
            self.pipe.close()
        return generations

    def outcome(self) -> Finished | Refused:
        """What it said last, else how its process ended and what it printed."""
        if isinstance(self.last, Finished):
            self._log.unlink(missing_ok=True)
        if self.last is not None:
            return self.last
        reason = f"its process {_ending(self.process.exitcode or 0)}"
        printed = self.printed.decode(errors="replace").strip()
        if printed and not self.asked_to_end:
            with suppress(OSError):  # a full disk is why it broke down, perhaps
                self._log.parent.mkdir(parents=True, exist_ok=True)
                self._log.write_text(f"{printed}\n", encoding="utf-8")
            where = Path(
                self._log.parent.name, self._log.name
            )  # in the experiment's folder, wherever that is
            reason = f"{reason}: {printed.splitlines()[-1]} (the rest is in {where})"
        return Refused(reason=reason)

    @property
    def _log(self) -> Path:
        """Where what it printed is kept if it breaks down."""
        return self.job.folder.with_name(f"{self.job.folder.name}.log")


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """The first generation begins."""


@dataclass(frozen=True, kw_only=True)
class _Moved:
    """So many generations are done."""

    generations: int


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed ({name}){', probably out of memory' if name == 'SIGKILL' else ''}"


# What happens in a child's process.


def _run_child(pipe: Connection, printed: Connection, job: Job, settings: Settings) -> None:
    """Run or resume to the result; report each generation; anything received ends the run after the current one."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if os.name == "posix":
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
    else:  # where signals cannot be blocked before the process starts, and Ctrl-C reaches all of them
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    outcome = run_job(job, settings, _Reporter(pipe))
    if outcome is not None:
        pipe.send(outcome)


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
