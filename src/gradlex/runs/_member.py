"""Member: a process's place among those that run a problem: who leads, who computes what, on which device."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from gradlex import _devices
from gradlex.engine import DistributedTeam, Serial, Team
from gradlex.errors import InputError
from gradlex.runs._problem import Problem

PATIENCE = timedelta(days=7)
"""Candidates may train for long; a death is noticed by its closed connection."""
HANDSHAKE = timedelta(minutes=1)
"""Once everybody is there, connecting takes a moment."""
GATHERING = timedelta(minutes=10)
"""Machines are not all there at the same moment."""

_set_timeout = getattr(dist, "set_timeout", None) or c10d._set_pg_timeout  # its name before torch 2.15


@dataclass(frozen=True, kw_only=True)
class Member:
    """This process's place among those that run a problem."""

    problem: Problem
    team: Team = field(default_factory=Serial)
    workers: int = 1
    watch: Callable[[], None] | None = None
    """Called often; raises when another process has died."""


def launched() -> bool:
    """Whether torchrun, or the caller's own program, has started this process as one of several."""
    return dist.is_initialized() or ("RANK" in os.environ and "WORLD_SIZE" in os.environ)


def leading() -> bool:
    """Whether this process is the one that writes files and talks to people."""
    if dist.is_initialized():
        return dist.get_rank() == 0
    return not launched() or place()[0] == 0


def place() -> tuple[int, int]:
    """This process's rank and the number of processes, by torchrun's variables; refused where they make no sense."""
    if dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    rank, size = variable("RANK"), variable("WORLD_SIZE")
    if not 0 <= rank < size:
        raise InputError(
            f"the environment has RANK {rank} and WORLD_SIZE {size}; a rank goes from 0 to WORLD_SIZE - 1: start with "
            "torchrun, or unset both."
        )
    return rank, size


def variable(name: str, default: str | None = None) -> int:
    """A number that torchrun puts into the environment; refused where it is none."""
    text = os.environ.get(name, default)
    try:
        return int(str(text))
    except ValueError as error:
        raise InputError(
            f"the environment's {name} is {text!r}, not a number: start with torchrun, or unset RANK and WORLD_SIZE."
        ) from error


def backend(device: torch.device) -> str:
    """What the processes talk through; `check_workers` has refused devices for which there is nothing."""
    return _devices.backend(device) or "gloo"


def placed(
    problem: Problem, local_rank: int, workers: int, watch: Callable[[], None] | None = None
) -> Member:
    """The problem on this process's own device, with its team."""
    device = _devices.own(problem.device, local_rank)
    _devices.make_current(device)
    team = DistributedTeam(problem.recipe.require("population"), device)
    return Member(problem=problem.to(device), team=team, workers=workers, watch=watch)


def be_patient(member: Member) -> None:
    """Let the groups of a process that has joined wait for as long as training may take."""
    parallel = member.team.parallel
    for group in [None, *([parallel.group] if parallel else [])]:
        _set_timeout(PATIENCE, group)
