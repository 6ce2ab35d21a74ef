"""A process's place among those that run a problem: who leads, who computes what, on which device."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from gradlex.engine import Alone, DistributedTeam, Team, refuse_uneven
from gradlex.errors import InputError
from gradlex.runs._problem import Problem
from gradlex.runs._resources import processors

PATIENCE = timedelta(days=7)
"""Candidates may train for long; a death is noticed by its closed connection."""
_CROWD = 8  # workers a processor: each is a process of its own with torch in its memory


@dataclass(frozen=True, kw_only=True)
class Member:
    """This process's place among those that run a problem."""

    problem: Problem
    team: Team = field(default_factory=Alone)
    watch: Callable[[], None] | None = None
    """Called often; raises when another process has died."""


def launched() -> bool:
    """Whether torchrun, or the caller's own program, has started this process as one of several."""
    return dist.is_initialized() or ("RANK" in os.environ and "WORLD_SIZE" in os.environ)


def local_workers(asked: int) -> int:
    """Processes on this machine: as many as torchrun has started where it has, else those that are asked for."""
    if not launched():
        return asked
    everywhere = dist.get_world_size() if dist.is_initialized() else os.environ["WORLD_SIZE"]
    return int(os.environ.get("LOCAL_WORLD_SIZE", everywhere))


def refuse_processes(population: int, workers: int) -> None:
    """Refuse a number of processes that the candidates cannot be shared out among."""
    if dist.is_initialized():
        workers = dist.get_world_size()
    elif launched():
        workers = int(os.environ["WORLD_SIZE"])
    elif workers > _CROWD * processors():
        raise InputError(
            f"{workers} workers are too many for the {processors()} processor(s) of this machine: use at most "
            f"{_CROWD * processors()}; one a processor is fastest."
        )
    refuse_uneven(workers, population)


def leading() -> bool:
    """Whether this process is the one that writes files and talks to people."""
    if dist.is_initialized():
        return dist.get_rank() == 0
    return not launched() or os.environ["RANK"] == "0"


def backend(device: torch.device) -> str:
    """What the processes talk through."""
    return "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"


def placed(problem: Problem, local_rank: int, watch: Callable[[], None] | None = None) -> Member:
    """The problem on this process's own device, with its team."""
    if problem.device.type == "cuda":
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        problem = problem.to(device)
    team = DistributedTeam(problem.recipe.require("population"), problem.device)
    return Member(problem=problem, team=team, watch=watch)
