"""A process's place among those that run a problem: who leads, who computes what, on which device."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as dist

from gradlex.engine import Alone, DistributedTeam, Team, refuse_uneven
from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.runs._problem import Problem
from gradlex.runs._resources import Chosen, choose_workers, processors
from gradlex.runs._shared_memory import want_of_room

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


def _variable(name: str) -> int:
    try:
        return int(os.environ[name])
    except ValueError as error:
        raise InputError(
            f"the environment's {name} is {os.environ[name]!r}, not a number: start with torchrun, or unset RANK and "
            "WORLD_SIZE."
        ) from error


def choose_processes(asked: int | Literal["auto"], recipe: Recipe, device: torch.device) -> Chosen:
    """Workers of the whole run, on all its machines: those that torchrun has started, else by the rule or as asked."""
    if not launched():
        return choose_workers(asked, recipe, device)
    size = dist.get_world_size() if dist.is_initialized() else _variable("WORLD_SIZE")
    if asked not in ("auto", size):
        raise InputError(
            f"{asked} worker(s) are asked for, but torchrun has started the {size} of this run: leave workers out."
        )
    return Chosen(size, "as started by torchrun")


def with_room(chosen: Chosen, asked: int | Literal["auto"], problem: Problem) -> Chosen:
    """The chosen workers; one where auto has taken several and shared memory has no room for what they share."""
    several = asked == "auto" and chosen.number > 1 and not launched()
    want = want_of_room(problem) if several else None
    return chosen if want is None else Chosen(1, want)


def refuse_processes(population: int, workers: int, device: torch.device) -> None:
    """Refuse a number of processes that the candidates, or this machine's processors or devices, are too few for.

    Under torchrun the candidates are those of rank 0's recipe, which the team asks once the ranks agree on it.
    """
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if launched() else workers
    if not launched() and workers > _CROWD * processors():
        raise InputError(
            f"{workers} workers are too many for the {processors()} processor(s) of this machine: use at most "
            f"{_CROWD * processors()}; one a processor is fastest."
        )
    if device.type == "cuda" and device.index is not None and here > 1:
        raise InputError(
            f"{here} workers cannot share the one device {device}: use one worker, or --device cuda for all devices."
        )
    if device.type == "cuda" and here > torch.cuda.device_count():
        raise InputError(
            f"{here} workers are too many for the {torch.cuda.device_count()} CUDA device(s) of this machine: each "
            "needs one of its own."
        )
    if not launched():
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
        index = problem.device.index
        device = torch.device("cuda", local_rank % torch.cuda.device_count() if index is None else index)
        torch.cuda.set_device(device)
        problem = problem.to(device)
    team = DistributedTeam(problem.recipe.require("population"), problem.device)
    return Member(problem=problem, team=team, watch=watch)
