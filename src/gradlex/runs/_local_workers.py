"""Local workers: processes that rank 0 starts on its own machine, watches and ends.

They are spawned with the problem; its tensors reach them through shared memory, so the data exists once on the
machine. A pipe each way is open for the whole life of both sides: when rank 0 dies, the end of its pipe ends a worker
at once, whatever it is doing; when a worker dies, rank 0 finds out at its next batch or exchange, or while it waits for
the others to join, and raises the worker's own error.
"""

from __future__ import annotations

import functools
import glob
import os
import pickle
import platform
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed import FileStore  # type: ignore[attr-defined]  # public, but its stub does not say so

from gradlex._memory import keep_freed_memory
from gradlex.errors import InputError, InterruptedRun, RunError
from gradlex.runs._connections import listening
from gradlex.runs._interrupts import deaf
from gradlex.runs._lifeline import ADVICE, LOST, Lifeline
from gradlex.runs._member import HANDSHAKE, Member, backend, be_patient, placed
from gradlex.runs._problem import Problem
from gradlex.runs._shared_memory import SHARED_MEMORY

_GRACE = 5.0  # seconds for an orderly end
_MEETING = f"gradlex-meeting-{platform.node()}-"


@dataclass
class _Worker:
    """A worker as rank 0 has it."""

    rank: int
    process: BaseProcess
    reports: Connection
    lifeline: Connection
    """Its end tells the worker that rank 0 is gone."""
    parcel: bytes = b""
    """What it is to do, until it is sent."""
    is_ready: bool = False
    """Whether it has all that it needs."""

    def report(self) -> tuple[float, str] | None:
        """When and why it has failed, where it says so."""
        try:
            while self.reports.poll():
                when, failure = self.reports.recv()
                if failure is not None:
                    return when, failure
                self.is_ready = True
        except (EOFError, OSError):  # it had no time to say why
            pass
        return None

    def send(self, data: bytes) -> None:
        """Send what it waits for; one that has died is found by the next check."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.lifeline.send_bytes(data)


@contextmanager
def started(problem: Problem, workers: int, follow: Callable[[Member], None]) -> Iterator[Member]:
    """This process as rank 0, and `workers` - 1 others that run `follow` until the end of the context."""
    _check_main()
    _sweep()
    others: list[_Worker] = []
    with ExitStack() as stack, listening():
        try:
            for rank in range(1, workers):
                others.append(_spawned(problem, rank, workers, follow))  # noqa: PERF401  # some may be left to end
            for other in others:
                other.send(other.parcel)
                other.parcel = b""
            _await(others)
            # Only now: if this process is killed, each of them can remove the folder.
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix=f"{_MEETING}{os.getpid()}-", ignore_cleanup_errors=True)
            )
            for other in others:
                other.send(folder.encode())
            watch = functools.partial(_check, others)
            yield _while_watching(watch, lambda: _joined(problem, 0, workers, folder, watch))
            _await_ends(others)
        except InterruptedRun:  # as theirs do
            _await_ends(others)
            raise
        except _WorkerDied:
            raise
        except RuntimeError as error:  # torch.distributed's word for a lost connection: say whose
            # In a data-parallel group a lost connection looks like a failed candidate, so look then too.
            _check(others, seconds=1 if isinstance(error, RunError) else 5)
            raise
        finally:
            for other in others:
                other.process.kill()
            for other in others:
                other.process.join()
                other.reports.close()
                other.lifeline.close()
            if dist.is_initialized():
                dist.destroy_process_group()


def _await_ends(others: list[_Worker]) -> None:
    """Let workers that have nothing more to do end in their own way, for a moment."""
    deadline = time.monotonic() + _GRACE
    for other in others:
        other.process.join(max(0, deadline - time.monotonic()))


def _spawned(problem: Problem, rank: int, workers: int, follow: Callable[[Member], None]) -> _Worker:
    spawn = torch.multiprocessing.get_context("spawn")
    reports, sender = spawn.Pipe(duplex=False)
    receiver, pipe = spawn.Pipe(duplex=False)
    lifeline = Lifeline(receiver, sender, _follow, rank, workers, problem, follow)
    process = spawn.Process(target=Lifeline.live, args=(lifeline,))
    try:
        with deaf():
            process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"several workers need a model, data, task and functions that can be pickled: "
            f"{error}. Define them at the top level of a module, or use workers=1."
        ) from error
    except RuntimeError as error:
        if "shared memory" not in str(error):  # torch's word for too little of it
            raise
        raise InputError(
            f"several workers cannot have the data: {error}. Give {SHARED_MEMORY} more room, or use workers=1."
        ) from error
    finally:
        sender.close()
        receiver.close()
    return _Worker(rank, process, reports, pipe, lifeline.parcel)


def _await(others: list[_Worker]) -> None:
    """Wait until every worker has what it needs; raise as soon as one has died."""
    while True:
        _check(others)
        if all(other.is_ready for other in others):
            return
        time.sleep(0.02)


def _follow(
    lifeline: Lifeline, rank: int, workers: int, problem: Problem, follow: Callable[[Member], None]
) -> None:
    """The life of a local worker: it follows rank 0, and reports if something goes wrong."""
    keep_freed_memory()
    code = 0
    try:
        lifeline.report(None)
        follow(_joined(problem, rank, workers, lifeline.meeting(), lambda: None))
        dist.destroy_process_group()
    except InterruptedRun:  # rank 0 says so
        pass
    except (RunError, InputError) as error:
        lifeline.report(str(error))
        code = 1
    except RuntimeError:  # a lost connection: the process that died has the error to report
        code = LOST
    except SystemExit:
        code = 1
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # After multiprocessing has removed what the worker made, a semaphore perhaps, but before the interpreter's own end,
    # at which a thread of torch's sometimes aborts the process.
    Finalize(None, os._exit, args=(code,), exitpriority=-1)


def _joined(problem: Problem, rank: int, workers: int, folder: str, watch: Callable[[], None]) -> Member:
    """This process as a member of the group of one machine."""
    store = FileStore(f"{folder}/store", workers)
    # Connecting has a short limit of its own: who dies just now would be waited for as long as training may take.
    dist.init_process_group(
        backend(problem.device), store=store, rank=rank, world_size=workers, timeout=HANDSHAKE
    )
    member = placed(problem, rank, workers, watch)
    be_patient(member)
    return member


def _while_watching(watch: Callable[[], None], join: Callable[[], Member]) -> Member:
    """Join in a thread of its own, and raise as soon as a worker has died: torch itself cannot be interrupted."""
    outcome: list[Any] = []

    def attempt() -> None:
        try:
            outcome.append(join())
        except BaseException as error:  # noqa: BLE001  # raised again below, in the caller's thread
            outcome.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
        watch()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    member: Member = outcome[0]
    return member


class _WorkerDied(RunError):
    """A worker has ended unexpectedly."""


def _check(others: list[_Worker], seconds: float = 0) -> None:
    """Raise the error of a worker that has ended before its time; wait so long for it to show."""
    deadline = time.monotonic() + seconds
    while True:
        codes = {other.rank: other.process.exitcode for other in others if other.process.exitcode}
        # A worker reports before it ends, so look there afterwards. What others report later follows from the first.
        reports = [report for other in others if (report := other.report()) is not None]
        if reports:
            raise _WorkerDied(min(reports)[1])
        guilty = {rank: code for rank, code in codes.items() if code != LOST}
        if guilty:
            rank, code = next(iter(guilty.items()))
            raise _WorkerDied(f"worker {rank} {_end(code)}")
        if time.monotonic() >= deadline:
            break
        time.sleep(0.05)
    if codes:
        raise _WorkerDied("a worker lost its connection to the others.")


def _end(code: int | None) -> str:
    if code == -getattr(signal, "SIGKILL", 9):
        return "was killed (SIGKILL), probably out of memory: use fewer workers, or placement offload."
    return f"ended unexpectedly with exit code {code}. {ADVICE}"


def _check_main() -> None:
    """Refuse workers where a spawned process would run the caller's script again, or cannot find it."""
    if getattr(torch.multiprocessing.current_process(), "_inheriting", False):
        raise InputError(
            "workers were asked for while a worker was starting: the script has no main guard, so every worker runs it "
            'again. Put the call below `if __name__ == "__main__":`, or use workers=1.'
        )


def _sweep() -> None:
    """Remove the meeting folders of runs on this machine that were killed whole."""
    if sys.platform == "win32":  # which has no harmless way to ask whether a process is there
        return
    for path in Path(tempfile.gettempdir()).glob(f"{glob.escape(_MEETING)}*"):
        leader = path.name.removeprefix(_MEETING).partition("-")[0]
        if leader.isdigit() and not _alive(int(leader)):
            shutil.rmtree(path, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True
