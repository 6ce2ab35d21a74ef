"""Who runs a problem: this process alone, local workers that it starts, or the ranks that torchrun has started."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # public, but its stub does not say so

from gradlex import _devices
from gradlex.engine import check_even
from gradlex.errors import InputError, RunError
from gradlex.recipe import Recipe
from gradlex.runs._connections import kept_alive, listening
from gradlex.runs._local_workers import started
from gradlex.runs._member import GATHERING, Member, backend, be_patient, launched, place, placed, variable
from gradlex.runs._problem import Problem
from gradlex.runs._resources import choose_workers, cpus
from gradlex.runs._shared_memory import lack_of_room, share_copy

_CROWD = 8  # workers per CPU: each is a process of its own with torch in its memory

# gloo's errors are plain ones that name the file of its source.
_GLOO = re.compile(r"gloo\W+transport|connectFullMesh|Connection (closed|reset) by peer", re.IGNORECASE)
_DATA = ("fingerprint", "train_samples", "test_samples")


def choose_processes(asked: Any, problem: Problem, notice: Callable[[str], None] = lambda text: None) -> int:
    """Workers of the whole run, on all its machines: those that torchrun has started, else as asked or by the rule.

    Where shared memory has no room for several, auto takes one and says why; a number that was asked for is refused.
    """
    recipe, device = problem.recipe, problem.device
    if launched():
        _, size = place()
        if asked not in ("auto", size):
            raise InputError(
                f"{asked} workers were asked for, but torchrun has started {size} for this run: leave workers out."
            )
        check_workers(recipe.require("population"), size, device)
        return size
    workers = choose_workers(asked, recipe, device)
    if workers > 1:
        lack = lack_of_room(problem)
        if lack is not None and asked != "auto":
            raise InputError(f"{lack}: give it more (docker run --shm-size), or use one worker.")
        if lack is not None:
            notice(f"{lack}: training with one.")
            workers = 1
    check_workers(recipe.require("population"), workers, device)
    return workers


def check_workers(population: int, workers: int, device: torch.device) -> None:
    """Refuse a number of processes that the candidates, or this machine's CPUs or devices, are too few for.

    Under torchrun the candidates are those of rank 0's recipe, which the team checks once the ranks agree on it.
    """
    here = variable("LOCAL_WORLD_SIZE", "1") if launched() else workers
    if not launched() and workers > _CROWD * cpus():
        raise InputError(
            f"{workers} workers are too many for the {cpus()} CPUs of this machine: use at most {_CROWD * cpus()}; one "
            "per CPU is fastest."
        )
    if _devices.backend(device) is None and workers > 1:
        raise InputError(
            f"several workers need devices that torch.distributed has a backend for, got {workers} on {device}: use "
            "one worker."
        )
    if _devices.is_accelerator(device) and device.index is not None and here > 1:
        raise InputError(
            f"{here} workers cannot share the one device {device}: use one worker, or --device {device.type} for all "
            "devices."
        )
    if _devices.is_accelerator(device) and here > _devices.count(device):
        raise InputError(
            f"{here} workers are too many for the {_devices.count(device)} {device.type} devices of this machine: each "
            "needs one of its own."
        )
    if not launched():
        check_even(workers, population)


@contextmanager
def members(problem: Problem, workers: int, follow: Callable[[Member], None]) -> Iterator[Member]:
    """This process's place; local workers, if there are to be any, are started and run `follow`."""
    if launched():
        with _launched_ranks(problem, workers) as member:
            yield member
    elif workers > 1:
        with started(problem, workers, follow) as member:
            yield member
    else:
        yield Member(problem=problem.to(problem.device))


@contextmanager
def _launched_ranks(problem: Problem, workers: int) -> Iterator[Member]:
    outer = dist.is_initialized()
    try:
        with kept_alive(), listening(_meeting_place()):
            if outer:
                _check_backend()
            else:
                _join(problem.device)
            recipe = _agreed_recipe(problem)
            share_copy(problem)
            local_rank = variable("LOCAL_RANK", str(dist.get_rank()))
            member = placed(problem.with_recipe(recipe), local_rank, workers)
            if not outer:
                be_patient(member)
        yield member
    except RuntimeError as error:
        if isinstance(error, RunError) or not _lost_connection(error):
            raise
        raise RunError(f"another process of this run ended unexpectedly: {error}") from error
    finally:
        if not outer and dist.is_initialized():
            dist.destroy_process_group()


def _meeting_place() -> str | None:
    """The host that the run's machines meet at; None: it has one machine."""
    if variable("LOCAL_WORLD_SIZE", "1") == place()[1]:
        return None
    return os.environ.get("MASTER_ADDR")


def _join(device: torch.device) -> None:
    """Join torchrun's processes.

    Its store outlives a restart, with the addresses of the processes that died: each attempt has its own names.
    """
    variable("LOCAL_RANK", os.environ["RANK"])
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=GATHERING))  # type: ignore[attr-defined]
    except ValueError as error:  # a variable that is not there, or no number
        raise InputError(
            f"RANK and WORLD_SIZE are set, as torchrun sets them, but {error}: start with torchrun, or unset them."
        ) from error
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"gradlex-{attempt}", store)
    dist.init_process_group(backend(device), store=store, rank=rank, world_size=size, timeout=GATHERING)


def _agreed_recipe(problem: Problem) -> Recipe:
    """The recipe of rank 0; refused, on every rank, where one of them has other data.

    Threads and precision follow from a machine, and what a resumed run has may be in a folder that rank 0 alone sees.
    """
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, (problem.recipe.to_dict(), {name: problem.data[name] for name in _DATA}))
    recipe, first = told[0]
    for rank, (_, data) in enumerate(told):
        if data != first:
            raise InputError(
                f"rank {rank} has other data than rank 0: {_described(data)} there, {_described(first)} on rank 0. "
                "Give every machine the same data."
            )
    return Recipe.from_dict(recipe)


def _described(data: dict[str, Any]) -> str:
    return "fingerprint {fingerprint}, {train_samples} training and {test_samples} test samples".format(
        **data
    )


def _check_backend() -> None:
    """Refuse the caller's own process group where numbers cannot travel from one CPU to another."""
    if "cpu:" not in dist.get_backend_config():
        raise InputError(
            f"the process group that this program has made, {dist.get_backend_config()}, has no backend for tensors on "
            "the CPU: make it with torch.distributed.init_process_group('cpu:gloo,cuda:nccl')."
        )


def _lost_connection(error: RuntimeError) -> bool:
    """Whether it is torch.distributed's or gloo's word for a process that is there no more."""
    return isinstance(error, dist.DistError) or bool(_GLOO.search(str(error)))
