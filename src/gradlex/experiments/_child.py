"""One run of an experiment in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from gradlex.errors import BusyError, InputError, InterruptedRun, RunError
from gradlex.recipe import Recipe
from gradlex.runs import (
    Execution,
    Problem,
    Record,
    RunFolder,
    execute,
    find_device,
    has_checkpoint,
    named_problem,
)


@dataclass(frozen=True, kw_only=True)
class Moved:
    """So many generations are done."""

    generations: int


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The run has its result."""

    test_accuracy: float | None


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The run ended without one, and says why."""

    reason: str
    elsewhere: bool = False
    """Another process is at it."""


def log_path(folder: Path, process: int) -> Path:
    """What a run's process prints, kept only where it breaks down."""
    return folder.with_name(f"{folder.name}.{process}.log")


def run_child(
    pipe: Connection,
    recipe: Recipe,
    fingerprint: str,
    folder: Path,
    device: str,
    data_dir: Path | None,
    evaluations: int,
) -> None:
    """Run, or go on, to the result; tell each generation; anything received ends it after the current one."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = log_path(folder, os.getpid())
    with open(log, "wb", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)

    def told(record: Record) -> None:
        pipe.send(Moved(generations=record.generation + 1))
        if pipe.poll():
            raise InterruptedRun(pipe.recv(), "")

    try:
        run_folder = RunFolder(folder)
        problem = named_problem(
            recipe, device=find_device(device), data_dir=data_dir, fresh=not has_checkpoint(run_folder)
        )
        _refuse_changed(problem, fingerprint)
        every = max(1, problem.recipe.require("generations") // evaluations)
        run = execute(
            problem, folder=run_folder, execution=Execution(evaluate_every=every), callback=told, resume=True
        )
        pipe.send(Finished(test_accuracy=run.result["test_accuracy"]))
    except InterruptedRun:
        pass
    except (RunError, InputError) as error:
        pipe.send(Refused(reason=str(error), elsewhere=isinstance(error, BusyError)))
    log.unlink()


def _refuse_changed(problem: Problem, fingerprint: str) -> None:
    """The run's name stands for the data that it was given by: no other may be trained on under it."""
    if problem.data["fingerprint"] != fingerprint:
        raise InputError(f"{problem.recipe.dataset} has changed since the experiment began: start it again.")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # the newest checkpoint is whole, and whoever starts the experiment again goes on there
