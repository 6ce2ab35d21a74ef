"""Room for what processes of one machine share: a file system in memory, often a small one inside a container."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from gradlex.data import ArraySamples
from gradlex.runs._problem import Problem

SHARED_MEMORY = Path("/dev/shm")


def roomy_folder(needed: int) -> Path | None:
    """A new folder with room for so many bytes: in shared memory, else among temporary files; None: nowhere.

    Writing to a mapped file that has no room ends a process by a signal, so that it must be asked before.
    """
    for place in (SHARED_MEMORY, Path(tempfile.gettempdir())):
        if os.access(place, os.W_OK) and shutil.disk_usage(place).free >= needed:
            return Path(tempfile.mkdtemp(prefix="gradlex-", dir=place))
    return None


def want_of_room(problem: Problem) -> str | None:
    """What shared memory lacks for local workers, who get arrays and weights through it; None: nothing."""
    if problem.device.type != "cpu" or not SHARED_MEMORY.is_dir():
        return None
    samples = [part for part in (problem.train, problem.test) if isinstance(part, ArraySamples)]
    weights = (*problem.model.parameters(), *problem.model.buffers())
    needed = sum(part.nbytes for part in samples) + sum(tensor.nbytes for tensor in weights)
    free = shutil.disk_usage(SHARED_MEMORY).free
    if needed <= free:
        return None
    return f"{SHARED_MEMORY} has {free / 2**20:,.1f} MB free, several workers need {needed / 2**20:,.1f} MB"
