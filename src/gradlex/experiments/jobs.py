"""Where jobs run: in fresh processes of this machine, one after another in this process, or on a Ray cluster."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeAlias, cast

import joblib
import torch

from gradlex._checks import Count, NonNegative, check
from gradlex._text import bind
from gradlex.errors import InputError, InterruptedRun

Jobs: TypeAlias = Mapping[str, Callable[[], Any]]
"""What to call, by the names of the jobs."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a job ended: what it returned, or why it failed."""

    name: str
    value: Any = None
    reason: str = ""
    """Empty if it succeeded."""
    traceback: str = ""
    bad_input: bool = False
    """Whether it raised an InputError."""


class Backend(Protocol):
    """Runs jobs in their order and yields each as it ends; a job that fails doesn't end the others."""

    def run(self, jobs: Jobs) -> Generator[Finished, None, None]:
        """Closing the generator ends the jobs that are running."""
        ...


@dataclass(frozen=True, kw_only=True)
class Processes:
    """A fresh process with one thread for each job, on this machine; `jobs` of them at a time."""

    jobs: int = 1

    def run(self, jobs: Jobs) -> Generator[Finished, None, None]:
        """Yield each job as it ends."""
        context = multiprocessing.get_context("spawn")
        waiting, running = iter(jobs.items()), dict[Any, Any]()
        try:
            while True:
                for name, job in itertools.islice(waiting, self.jobs - len(running)):
                    here, there = context.Pipe(duplex=False)
                    process = context.Process(target=_send_outcome, args=(name, job, there), name=name)
                    process.start()
                    there.close()  # so that the end of the process ends the pipe
                    running[here] = process
                if not running:
                    return
                for pipe in wait(list(running)):
                    process, outcome = running.pop(pipe), None
                    with suppress(EOFError):
                        outcome = cast("Connection", pipe).recv()
                    process.join()
                    reason = f"its process ended with exit code {process.exitcode}, without a result"
                    yield outcome or Finished(name=process.name, reason=reason)
        finally:
            for process in running.values():
                process.terminate()
            for process in running.values():
                process.join()


@dataclass(frozen=True, kw_only=True)
class Serial:
    """One job after another in this process, for a debugger or a notebook."""

    jobs: int = 1

    def __post_init__(self) -> None:
        if self.jobs != 1:
            raise InputError(f"the serial backend runs one job at a time, got jobs={self.jobs}: leave jobs out.")

    def run(self, jobs: Jobs) -> Generator[Finished, None, None]:
        """Yield each job as it ends."""
        for name, job in jobs.items():
            yield _performed(name, job)


@dataclass(frozen=True, kw_only=True)
class Ray:
    """A Ray cluster, whose machines see the folders under the same path; `jobs` at a time, each with `num_gpus`.

    It is the cluster that RAY_ADDRESS names, or a new one on this machine.
    """

    jobs: int = 1
    num_gpus: float = 0

    def run(self, jobs: Jobs) -> Generator[Finished, None, None]:
        """Yield each job as it ends."""
        try:
            import ray
        except ImportError as error:
            raise InputError('the ray backend needs Ray: pip install "gradlex[ray]".') from error
        ray.init(ignore_reinit_error=True, log_to_driver=False)
        check("num_gpus", NonNegative, self.num_gpus)
        # max_calls: a fresh process for each job.
        remote = ray.remote(num_cpus=1, num_gpus=self.num_gpus, max_calls=1, max_retries=0)(_performed)
        waiting, running = iter(jobs.items()), dict[Any, str]()
        try:
            while True:
                for name, job in itertools.islice(waiting, self.jobs - len(running)):
                    running[remote.remote(name, job)] = name
                if not running:
                    return
                for task in ray.wait(list(running))[0]:
                    name = running.pop(task)
                    try:
                        outcome = ray.get(task)
                    except ray.exceptions.RayError as error:
                        outcome = Finished(name=name, reason=f"Ray ended it: {error}")
                    yield outcome
        finally:
            for task in running:
                ray.cancel(task, force=True)


BACKENDS: Mapping[str, Callable[..., Backend]] = {"processes": Processes, "serial": Serial, "ray": Ray}


def make_backend(given: str | Backend, jobs: int = 1) -> Backend:
    """The backend of a text such as `ray(num_gpus=0.5)`, with this many jobs at a time."""
    check("jobs", Count, jobs)
    return bind("backend", given, BACKENDS)(jobs=jobs) if isinstance(given, str) else given


def portable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in a form that another process can load: closures, and a notebook's functions, travel by value."""
    interactive = not hasattr(sys.modules["__main__"], "__file__")
    if not (interactive and getattr(function, "__module__", None) == "__main__"):
        with suppress(pickle.PicklingError, AttributeError, TypeError):
            pickle.dumps(function)
            return function
    return joblib.wrap_non_picklable_objects(function)  # type: ignore[no-any-return]


def _performed(name: str, job: Callable[[], Any]) -> Finished:
    try:
        return Finished(name=name, value=job())
    except Exception as error:  # noqa: BLE001  # whatever a caller's function raises
        bad_input = isinstance(error, InputError)
        reason = str(error) if bad_input else f"{type(error).__name__}: {error}"
        return Finished(name=name, reason=reason, traceback=traceback.format_exc(), bad_input=bad_input)


def _send_outcome(name: str, job: Callable[[], Any], connection: Connection) -> None:
    """What a process does."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(KeyboardInterrupt, InterruptedRun):  # the parent says so
        connection.send(_performed(name, job))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
