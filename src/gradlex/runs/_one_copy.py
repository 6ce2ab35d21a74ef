"""One copy of the data a machine, where a launcher started each process by itself.

Every rank has loaded the data; here the first of each machine puts its arrays into a file in shared memory, all map
that file, and their own copies are let go. The file is removed at once: what is mapped stays.
"""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import torch.distributed as dist

from gradlex.data import ArraySamples
from gradlex.runs._agreement import gathered
from gradlex.runs._problem import Problem
from gradlex.runs._shared_memory import roomy_folder


def share_copy(problem: Problem) -> None:
    """Let the ranks of this machine share one copy of the problem's arrays.

    Every rank of the run calls it, since all of them meet here; one that is alone on its machine, or that does not
    see the others' files, keeps its own copy.
    """
    parts = {"train": problem.train, "test": problem.test} if problem.device.type == "cpu" else {}
    arrays = {name: part for name, part in parts.items() if isinstance(part, ArraySamples)}
    machine = os.environ.get("GROUP_RANK", socket.gethostname())
    here = [rank for rank, where in enumerate(gathered(machine)) if where == machine]
    own: Path | None = None
    try:
        if arrays and len(here) > 1 and dist.get_rank() == here[0]:
            own = roomy_folder(sum(samples.nbytes for samples in arrays.values()))
        if own is not None:
            _map(arrays, own, write=True)
        folder = gathered(own)[here[0]]  # the first has written
        if own is None and folder is not None and _visible(arrays, folder):
            _map(arrays, folder, write=False)
        gathered(None)  # the others have mapped
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


def _visible(arrays: dict[str, ArraySamples], folder: Path) -> bool:
    files = {name: folder / name for name in arrays}
    return all(path.exists() and path.stat().st_size == arrays[name].nbytes for name, path in files.items())


def _map(arrays: dict[str, ArraySamples], folder: Path, *, write: bool) -> None:
    for name, samples in arrays.items():
        samples.map_into(folder / name, write=write)
