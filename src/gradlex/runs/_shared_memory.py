"""What processes of one machine share: one copy of the data, in a file system in memory, often small in a container."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

import torch.distributed as dist

from gradlex.data import ArraySamples, Subset
from gradlex.runs._problem import Problem

SHARED_MEMORY = Path("/dev/shm")


def lack_of_room(problem: Problem) -> str | None:
    """What shared memory lacks for local workers, who get arrays and weights through it; None: nothing."""
    if problem.device.type != "cpu" or not SHARED_MEMORY.is_dir():
        return None
    samples = list(_arrays(problem).values())
    weights = (*problem.model.parameters(), *problem.model.buffers())
    needed = sum(part.nbytes for part in samples) + sum(tensor.nbytes for tensor in weights)
    free = shutil.disk_usage(SHARED_MEMORY).free
    if needed <= free:
        return None
    return f"{SHARED_MEMORY} has {free / 2**20:,.1f} MB free, several workers need {needed / 2**20:,.1f} MB"


def share_copy(problem: Problem) -> None:
    """Let the ranks that torchrun started on this machine share one copy of the problem's arrays.

    Every rank has loaded the data; the first of each machine puts its arrays into a file in shared memory, all map
    that file, and their own copies are let go. The file is removed at once: what is mapped stays. Every rank of the run
    calls this, since all of them meet here; one that is alone on its machine, or does not see the others' files, keeps
    its copy.
    """
    arrays = _arrays(problem) if problem.device.type == "cpu" else {}
    machine = os.environ.get("GROUP_RANK", socket.gethostname())
    here = [rank for rank, where in enumerate(_gathered(machine)) if where == machine]
    own: Path | None = None
    try:
        if arrays and len(here) > 1 and dist.get_rank() == here[0]:
            own = roomy_folder(sum(samples.nbytes for samples in arrays.values()))
        if own is not None:
            _map(arrays, own, write=True)
        folder = _gathered(own)[here[0]]  # the first has written
        if own is None and folder is not None and _visible(arrays, folder):
            _map(arrays, folder, write=False)
        _gathered(None)  # the others have mapped
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


def _arrays(problem: Problem) -> dict[str, ArraySamples]:
    """The problem's samples that lie in memory, each once; held-out cases are a part of the training samples."""
    parts = {"train": problem.train, "test": problem.test, "validation": problem.validation}
    whole = {name: part.samples if isinstance(part, Subset) else part for name, part in parts.items()}
    if whole["validation"] is whole["train"]:
        del whole["validation"]
    return {name: part for name, part in whole.items() if isinstance(part, ArraySamples)}


def roomy_folder(needed: int) -> Path | None:
    """A new folder with room for so many bytes: in shared memory, else among temporary files; None: nowhere.

    Writing to a mapped file that has no room ends a process by a signal, so that it must be asked before.
    """
    for place in (SHARED_MEMORY, Path(tempfile.gettempdir())):
        if os.access(place, os.W_OK) and shutil.disk_usage(place).free >= needed:
            return Path(tempfile.mkdtemp(prefix="gradlex-", dir=place))
    return None


def _gathered(own: Any) -> list[Any]:
    """What every rank of the run has, in their order; all of them meet here."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, own)
    return found


def _visible(arrays: dict[str, ArraySamples], folder: Path) -> bool:
    files = {name: folder / name for name in arrays}
    return all(path.exists() and path.stat().st_size == arrays[name].nbytes for name, path in files.items())


def _map(arrays: dict[str, ArraySamples], folder: Path, *, write: bool) -> None:
    for name, samples in arrays.items():
        samples.map_into(folder / name, write=write)
