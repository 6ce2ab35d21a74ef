"""Runs as SLURM jobs by submitit (extra `slurm`); its local and debug executors need no SLURM."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradlex import _devices
from gradlex.errors import InputError
from gradlex.experiments._jobs import Job
from gradlex.experiments._remote import Progress, run_there
from gradlex.experiments._run_job import Finished, Refused, Settings


@dataclass(frozen=True)
class _Run:
    """What a SLURM job computes; preempted or out of time, it is submitted again and resumes."""

    job: Job
    settings: Settings

    def __call__(self) -> Finished | Refused | None:
        return run_there(self.job, self.settings)

    def checkpoint(self) -> Any:
        from submitit.helpers import DelayedSubmission  # noqa: PLC0415  # an extra

        return DelayedSubmission(self)


class Slurm:
    """Each run is a job; options but `cluster` and `logs` are submitit's (timeout_min, slurm_partition, ...)."""

    def __init__(self, settings: Settings, threads: int, options: Mapping[str, Any]) -> None:
        try:
            import submitit  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise InputError("--on slurm needs submitit: pip install 'gradlex[slurm]'.") from error
        self._settings = settings
        parameters = dict(options)
        cluster, logs = parameters.pop("cluster", None), parameters.pop("logs", "slurm-logs")
        try:
            self._executor: Any = submitit.AutoExecutor(folder=Path(logs).resolve(), cluster=cluster)
            gpus = 1 if _devices.is_accelerator(torch.device(settings.device)) else 0
            asked = {
                "cpus_per_task": threads,
                "gpus_per_node": gpus,
                "timeout_min": 24 * 60,
                "name": "gradlex",
            }
            self._executor.update_parameters(**{**asked, **parameters})
        except (RuntimeError, ValueError, TypeError, NameError, KeyError) as error:  # submitit's refusals
            raise InputError(f"--on slurm cannot be used so: {error}") from error
        self._debug = self._executor.cluster == "debug"
        self._started: list[SlurmAttempt] = []

    def __enter__(self) -> Slurm:
        return self

    def __exit__(self, *exception: object) -> None:
        """Cancel what is still queued or running."""
        for attempt in self._started:
            attempt.cancel()

    def start(self, job: Job, slot: int) -> SlurmAttempt:
        """Submit it."""
        progress = Progress(job)
        submitted = self._executor.submit(_Run(job, self._settings))
        self._started.append(SlurmAttempt(job, slot, submitted, progress))
        if self._debug:  # which computes here, when it is asked for the result
            submitted.wait()
        return self._started[-1]

    def wait(self, running: Sequence[SlurmAttempt], seconds: float) -> None:
        """For a moment: a queue has nothing to listen to."""
        if not any(attempt.is_over for attempt in running):
            time.sleep(seconds)


class SlurmAttempt:
    """A run as a SLURM job."""

    def __init__(self, job: Job, slot: int, submitted: Any, progress: Progress) -> None:
        self.job, self.slot = job, slot
        self._submitted, self._progress = submitted, progress

    @property
    def is_over(self) -> bool:
        """Whether the job has left the queue."""
        return bool(self._submitted.done())

    def cancel(self) -> None:
        """Take it from the queue, if it is still there."""
        if not self.is_over:
            self._submitted.cancel()

    def listen(self) -> Sequence[int]:
        """What its folder says."""
        return self._progress.news()

    def end(self, signum: int) -> None:
        """Ask it to end after the current generation; in the queue there is nothing to wait for."""
        self._progress.end()
        if self._submitted.state == "PENDING":
            self._submitted.cancel()

    def outcome(self) -> Finished | Refused:
        """What the job returned, or how it broke down; the rest is in submitit's folder of logs."""
        self._progress.over()
        error = self._submitted.exception()
        if error is not None:
            last = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            return Refused(reason=f"its job {self._submitted.job_id} broke down: {last[0]}")
        found: Finished | Refused | None = self._submitted.result()
        return found or Refused(reason="it was asked to end")
