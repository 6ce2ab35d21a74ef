"""Local workers: processes that rank 0 starts on its own machine, watches and ends.

They are spawned with the problem; its tensors reach them through shared memory, so the data exists once on the
machine. When a worker dies, rank 0 finds out at its next batch or exchange and raises the worker's own error; when
rank 0 dies, the workers' next batch or exchange ends them.
"""

from __future__ import annotations

import functools
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed import FileStore  # type: ignore[attr-defined]  # public, but its stub does not say so

from gradlex.errors import InputError, InterruptedRun, RunError
from gradlex.runs._interrupts import deaf
from gradlex.runs._members import PATIENCE, Member, backend, placed
from gradlex.runs._problem import Problem
from gradlex.runs._shared_memory import SHARED_MEMORY, want_of_room

_HANDSHAKE = timedelta(minutes=1)  # once everybody is there, connecting takes a moment
_LOST = 75  # exit code of a worker that ends because another process has


@contextmanager
def started(problem: Problem, workers: int, follow: Callable[[Member], None]) -> Iterator[Member]:
    """This process as rank 0, and `workers` - 1 others that run `follow` until the end of the context."""
    want = want_of_room(problem)
    if want is not None:
        raise InputError(f"{want}: give it more (docker run --shm-size), or use one worker.")
    spawn = torch.multiprocessing.get_context("spawn")
    others: list[tuple[BaseProcess, Connection]] = []
    with tempfile.TemporaryDirectory(prefix="gradlex-") as folder, _loopback():
        try:
            for rank in range(1, workers):
                ours, theirs = spawn.Pipe(duplex=False)
                process = spawn.Process(
                    target=_worker, args=(rank, workers, folder, theirs, os.getpid(), problem, follow)
                )
                try:
                    with deaf():
                        process.start()
                except (pickle.PicklingError, AttributeError, TypeError) as error:
                    raise InputError(
                        f"several workers need a model, data and augmentation that can be pickled: {error}. "
                        "Define them at the top level of a module, or use workers=1."
                    ) from error
                except RuntimeError as error:
                    if "shared memory" not in str(error):  # torch's word for too little of it
                        raise
                    raise InputError(
                        f"several workers cannot have the data: {error}. Give {SHARED_MEMORY} more room, or use "
                        "workers=1."
                    ) from error
                theirs.close()
                others.append((process, ours))
            watch = functools.partial(_check, others)
            _meet(0, workers, folder, problem.device, watch)
            yield placed(problem, 0, watch)
        except _WorkerDied:
            raise
        except RuntimeError as error:  # torch.distributed's word for a lost connection: say whose
            # In a data-parallel group a lost connection looks like a failed candidate, so ask then too.
            _check(others, seconds=1 if isinstance(error, RunError) else 5)
            raise
        finally:
            for other, _ in others:
                other.kill()  # nothing that a worker holds needs an orderly end
            for other, pipe in others:
                other.join()
                pipe.close()
            if dist.is_initialized():
                dist.destroy_process_group()


def _worker(
    rank: int,
    workers: int,
    folder: str,
    sender: Connection,
    leader: int,
    problem: Problem,
    follow: Callable[[Member], None],
) -> None:
    """The life of a local worker: it follows rank 0, and tells it if something goes wrong."""

    def watch() -> None:
        if os.getppid() != leader:
            raise SystemExit(1)

    code = 0
    try:
        _meet(rank, workers, folder, problem.device, watch)
        follow(placed(problem, rank, watch))
        dist.destroy_process_group()
    except InterruptedRun:  # rank 0 says so
        pass
    except (RunError, InputError) as error:
        sender.send((time.time(), str(error)))
        code = 1
    except RuntimeError:  # a lost connection: the process that died has the error to tell
        code = _LOST
    except SystemExit:
        code = 1
    if os.getppid() != leader:
        shutil.rmtree(folder, ignore_errors=True)  # which the leader would have removed
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)  # now: at the interpreter's own end a thread of torch's sometimes aborts the process


class _WorkerDied(RunError):
    """A worker has ended before its time."""


def _check(others: list[tuple[BaseProcess, Connection]], seconds: float = 0) -> None:
    """Raise the error of a worker that has ended before its time; wait so long for it to show."""
    deadline = time.monotonic() + seconds
    while True:
        codes = [process.exitcode for process, _ in others if process.exitcode]
        # A worker tells before it ends, so ask after looking. What others tell later follows from the first error.
        reports = [report for _, ours in others for report in _received(ours)]
        if reports:
            raise _WorkerDied(min(reports)[1])
        guilty = [code for code in codes if code != _LOST]
        if guilty:
            raise _WorkerDied(f"a worker {_end(guilty[0])}.")
        if time.monotonic() >= deadline:
            break
        time.sleep(0.05)
    if codes:
        raise _WorkerDied("a worker lost its connection to the others.")


def _received(ours: Connection) -> list[tuple[float, str]]:
    """When and why a worker has failed, where it says so."""
    try:
        return [ours.recv()] if ours.poll() else []
    except (EOFError, OSError):  # it had no time to say why
        return []


def _end(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was killed (SIGKILL), often for want of memory: use fewer workers, or --placement offload"
    return f"ended before its time with exit code {code}"


def _meet(rank: int, workers: int, folder: str, device: torch.device, watch: Callable[[], None]) -> None:
    """Join the process group of one machine, watching that nobody dies while the others are still starting."""
    store = FileStore(f"{folder}/meeting", workers)
    store.set_timeout(_HANDSHAKE)
    store.set(f"here-{rank}", "yes")
    while not store.check([f"here-{other}" for other in range(workers)]):
        watch()
        time.sleep(0.05)
    dist.init_process_group(backend(device), store=store, rank=rank, world_size=workers, timeout=PATIENCE)


@contextmanager
def _loopback() -> Iterator[None]:
    """Let gloo talk within the machine inside, unless the user says how, and leave the environment as it was."""
    name = "GLOO_SOCKET_IFNAME"
    given = name in os.environ
    os.environ.setdefault(name, "lo0" if os.uname().sysname == "Darwin" else "lo")
    try:
        yield
    finally:
        if not given:
            os.environ.pop(name, None)
