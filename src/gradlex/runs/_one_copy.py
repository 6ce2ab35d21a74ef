"""One copy of the data a machine, where a launcher started each process by itself.

Every rank has loaded the data; here the first of each machine puts its arrays into a file in shared memory, all map
that file, and their own copies are let go. The file is removed at once: what is mapped stays.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch.distributed as dist

from gradlex.data import ArraySamples, Samples
from gradlex.runs._problem import Problem

_SHARED_MEMORY = Path("/dev/shm")


def one_copy(problem: Problem) -> Problem:
    """The problem with its arrays shared among the ranks of this machine (torchrun says which those are)."""
    if problem.device.type != "cpu" or int(os.environ.get("LOCAL_WORLD_SIZE", "1")) == 1:
        return problem
    machine, first = os.environ["GROUP_RANK"], os.environ["LOCAL_RANK"] == "0"
    own = (
        tempfile.mkdtemp(prefix="gradlex-", dir=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None)
        if first
        else ""
    )
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, (machine, own))
    folder = Path(next(path for where, path in told if where == machine and path))
    try:
        shared = _mapped(problem, folder, write=True) if first else None
        dist.barrier()  # the first has written
        shared = shared or _mapped(problem, folder, write=False)
        dist.barrier()  # the others have mapped
    finally:
        if first:
            shutil.rmtree(folder, ignore_errors=True)
    return shared


def _mapped(problem: Problem, folder: Path, *, write: bool) -> Problem:
    def part(name: str, samples: Samples) -> Samples:
        return samples.mapped(folder / name, write=write) if isinstance(samples, ArraySamples) else samples

    return replace(
        problem,
        train=part("train", problem.train),
        test=None if problem.test is None else part("test", problem.test),
    )
