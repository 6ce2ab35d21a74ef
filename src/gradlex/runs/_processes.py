"""Who runs a problem: this process alone, local workers that it starts, or the ranks of a torchrun."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # public, but its stub does not say so

from gradlex.errors import InputError, RunError
from gradlex.runs._agreement import adopted, agreed_recipe
from gradlex.runs._local_workers import started
from gradlex.runs._members import PATIENCE, Member, backend, launched, placed
from gradlex.runs._one_copy import share_copy
from gradlex.runs._problem import Problem

# gloo's errors are plain ones that name the file of its source.
_GLOO = re.compile(r"gloo\W+transport|connectFullMesh|Connection (closed|reset) by peer", re.IGNORECASE)


@contextmanager
def members(problem: Problem, workers: int, follow: Callable[[Member], None]) -> Iterator[Member]:
    """This process's place; local workers, if there are to be any, are started and run `follow`."""
    if launched():
        with _launched(problem) as member:
            yield member
    elif workers > 1:
        with started(problem, workers, follow) as member:
            yield member
    else:
        yield Member(problem=problem)


@contextmanager
def _launched(problem: Problem) -> Iterator[Member]:
    outer = dist.is_initialized()
    try:
        if outer:
            _refuse_devices_only()
        else:
            _join(problem.device)
        recipe = agreed_recipe(problem)
        share_copy(problem)
        yield placed(adopted(problem, recipe), int(os.environ.get("LOCAL_RANK", dist.get_rank())))
    except RuntimeError as error:
        if isinstance(error, RunError) or not _lost_connection(error):
            raise
        raise RunError(f"another process of this run has ended before its time: {error}") from error
    finally:
        if not outer and dist.is_initialized():
            dist.destroy_process_group()


def _refuse_devices_only() -> None:
    """Refuse the caller's own process group where numbers cannot travel from one processor to another."""
    if "cpu:" not in dist.get_backend_config():
        raise InputError(
            f"the process group that this program has made, {dist.get_backend_config()}, has no backend for tensors on "
            "the processor: make it with torch.distributed.init_process_group('cpu:gloo,cuda:nccl')."
        )


def _lost_connection(error: RuntimeError) -> bool:
    """Whether it is torch.distributed's or gloo's word for a process that is there no more."""
    return isinstance(error, dist.DistError) or bool(_GLOO.search(str(error)))


def _join(device: torch.device) -> None:
    """Join torchrun's processes.

    Its store outlives a restart, with the addresses of the processes that died: each attempt has its own names.
    """
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=PATIENCE))  # type: ignore[attr-defined]
    except ValueError as error:  # a variable that is not there, or no number
        raise InputError(
            f"RANK and WORLD_SIZE are set, as torchrun sets them, but {error}: start with torchrun, or unset them."
        ) from error
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"gradlex-{attempt}", store)
    dist.init_process_group(backend(device), store=store, rank=rank, world_size=size, timeout=PATIENCE)
