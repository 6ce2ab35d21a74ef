"""One run of an experiment, in whatever process: run or resumed to its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradlex._memory import keep_freed_memory
from gradlex.callbacks import Callback
from gradlex.data import Arrays, load
from gradlex.errors import BusyError, InputError, InterruptedRun, RunError
from gradlex.experiments._jobs import Job
from gradlex.recipe import Recipe
from gradlex.runs import Execution, Named, start


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How every run of an experiment is carried out."""

    device: str
    data_dir: Path | None = None
    evaluations: int = 10
    """How often a run is evaluated on the test samples."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The run has its result."""

    elsewhere: bool = False
    """Another process has brought it there since this one was started."""


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The run ended without one, and says why."""

    reason: str
    elsewhere: bool = False
    """Another process is running it."""


def run_job(job: Job, settings: Settings, callback: Callback) -> Finished | Refused | None:
    """Run or resume to the result; None where the callback has interrupted the run."""
    keep_freed_memory()  # in a process of its own, wherever that is
    try:
        arrays = _unchanged(job.recipe, job.fingerprint, settings.data_dir)
        elsewhere = (job.folder / "result.json").exists()  # then only its result is read
        execution = Execution(
            workers=1,
            device=settings.device,
            evaluate_every=max(1, job.recipe.require("generations") // settings.evaluations),
            keep_checkpoints=job.keep_checkpoints,
            begin_with=job.beginning,
        )
        start(
            Named(data_dir=settings.data_dir, arrays=arrays),
            job.recipe,
            execution,
            out=job.folder,
            resume=True,
            callbacks=(callback,),
        )
        return Finished(elsewhere=elsewhere)
    except InterruptedRun:
        return None
    except (RunError, InputError) as error:
        return Refused(reason=str(error), elsewhere=isinstance(error, BusyError))


def _unchanged(recipe: Recipe, fingerprint: str, data_dir: Path | None) -> Arrays:
    """The data that the run's name stands for: no other may be trained on under it."""
    arrays = load(recipe, data_dir)
    if arrays.fingerprint() != fingerprint:
        raise InputError(f"{recipe.dataset} has changed since the experiment began: rerun the command.")
    return arrays
