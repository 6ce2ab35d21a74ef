"""What runs on a cluster have in common: its machines see the experiment's folder, and that is all they share.

How far a run has come is read from its folder; a file beside it asks the run to end after the current generation.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from gradlex.callbacks import Callback, LiveRun, Record
from gradlex.errors import InterruptedRun
from gradlex.experiments._jobs import Job
from gradlex.experiments._run_job import Finished, Refused, Settings, run_job


def run_there(job: Job, settings: Settings) -> Finished | Refused | None:
    """Run or resume to the result, on a machine of the cluster; None where the run was asked to end."""
    if stop_file(job).exists():  # while it was queued
        return None
    return run_job(job, settings, _Stopping(stop_file(job)))


def stop_file(job: Job) -> Path:
    """The file that asks a run to end."""
    return job.folder.with_name(f"{job.folder.name}.stop")


class Progress:
    """News of a run from its folder. Made before the run is submitted."""

    def __init__(self, job: Job) -> None:
        self._job, self._done = job, job.generations_done
        stop_file(job).unlink(missing_ok=True)  # an earlier experiment's

    def news(self) -> Sequence[int]:
        """The generations that have been done since it was last asked."""
        before, self._done = self._done, self._job.generations_done
        return range(before + 1, self._done + 1)

    def end(self) -> None:
        """Ask the run to end after the current generation."""
        file = stop_file(self._job)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()

    def over(self) -> None:
        """The run has ended."""
        stop_file(self._job).unlink(missing_ok=True)


class _Stopping(Callback):
    """Ends the run once the file is there; a folder on the network is not asked more than once a second."""

    def __init__(self, file: Path) -> None:
        self._file, self._asked = file, time.monotonic()

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """Look for the file."""
        if time.monotonic() - self._asked > 1 or record.generation == 0:
            self._asked = time.monotonic()
            if self._file.exists():
                raise InterruptedRun(signal.SIGTERM, "")
