"""Runs on a Ray cluster (extra `ray`): an existing one by RAY_ADDRESS or the option `address`, else a local one."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Ge

from gradlex import _devices
from gradlex.errors import InputError
from gradlex.experiments._jobs import Job
from gradlex.experiments._remote import Progress, run_there
from gradlex.experiments._run_job import Finished, Refused, Settings


class RayCluster:
    """Each run is a task with its own CPUs and GPUs. One whose worker dies is tried again, and resumes."""

    def __init__(
        self,
        settings: Settings,
        threads: int,
        *,
        address: str | None = None,
        num_cpus: Annotated[float, Ge(0)] | None = None,
        num_gpus: Annotated[float, Ge(0)] | None = None,
        retries: Annotated[int, Ge(0)] = 3,
    ) -> None:
        try:
            import ray  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise InputError("--on ray needs Ray: pip install 'gradlex[ray]'.") from error
        self._ray: Any = ray
        self._settings, self._address = _elsewhere(settings), address
        gpus = 1 if _devices.is_accelerator(torch.device(settings.device)) else 0
        self._options = {
            "num_cpus": threads if num_cpus is None else num_cpus,
            "num_gpus": gpus if num_gpus is None else num_gpus,
            "max_retries": retries,
        }
        self._own = False

    def __enter__(self) -> RayCluster:
        if not self._ray.is_initialized():
            self._own = True
            before = signal.getsignal(signal.SIGTERM)
            # Neither the tasks' output nor Ray's own log belongs beside the display of progress.
            self._ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)  # Ray's own handler ends the command at once
        self._task = self._ray.remote(run_there).options(**self._options)
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave the cluster, or end it where it was started here; runs that are under way end with it."""
        if self._own:
            self._ray.shutdown()

    def start(self, job: Job, slot: int) -> RayAttempt:
        """Hand it to the cluster, which starts it when it has room."""
        progress = Progress(job)
        return RayAttempt(self._ray, job, slot, self._task.remote(_absolute(job), self._settings), progress)

    def wait(self, running: Sequence[RayAttempt], seconds: float) -> None:
        """Until a run has ended, but not for long."""
        if running:
            self._ray.wait([attempt.task for attempt in running], timeout=seconds)
        else:
            time.sleep(seconds)


class RayAttempt:
    """A run as a task of the cluster."""

    def __init__(self, ray: Any, job: Job, slot: int, task: Any, progress: Progress) -> None:
        self.job, self.slot, self.task = job, slot, task
        self._ray, self._progress = ray, progress

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return bool(self._ray.wait([self.task], timeout=0)[0])

    def listen(self) -> Sequence[int]:
        """What its folder says."""
        return self._progress.news()

    def end(self, signum: int) -> None:
        """Ask it to end after the current generation."""
        self._progress.end()

    def outcome(self) -> Finished | Refused:
        """What the task returned, or Ray's word for how it broke down."""
        self._progress.over()
        try:
            found: Finished | Refused | None = self._ray.get(self.task)
        except self._ray.exceptions.RayError as error:
            return Refused(reason=f"its task broke down on the cluster: {type(error).__name__}: {error}")
        return found or Refused(reason="it was asked to end")


def _elsewhere(settings: Settings) -> Settings:
    """As a task sees it: the folder from another working directory, and no GPUs but its own."""
    data_dir = None if settings.data_dir is None else settings.data_dir.resolve()
    return replace(settings, device=torch.device(settings.device).type, data_dir=data_dir)


def _absolute(job: Job) -> Job:
    """The job with folders that mean the same in another process's working directory."""
    begin = None if job.begin_with is None else Path(job.begin_with).resolve()
    return replace(job, folder=Path(job.folder).resolve(), begin_with=begin)
