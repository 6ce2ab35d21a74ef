"""How many workers and threads, and which precision: rules from CPUs, devices, population and network.

A rule, never a timing, so that the same recipe on the same machine is always the same run.
"""

from __future__ import annotations

import os
from typing import Literal

import torch

from gradlex import _devices
from gradlex.recipe import Recipe

SMALL_NETWORK = 150e6
"""Multiply-adds a sample up to which a network trains faster in several processes than with several threads.

Measured with two CPUs, two processes of one thread against one of two: 1.65 times faster at 1 million multiply-adds,
1.1 to 1.5 at 9 to 41, 1.1 at 125 (resnet56) and 139 (resnet18 of half width), 0.95 at 555 (resnet18). So processes come
first. One with CPUs to spare is 1.2 to 1.9 times faster with two threads than with one; more than two have not been
measured on so small a network.
"""


def cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_workers(asked: int | Literal["auto"], recipe: Recipe, device: torch.device) -> int:
    """As many processes as there are candidates and places for them to compute; an asked number stays."""
    if asked != "auto":
        return asked
    population = recipe.require("population")
    if _devices.is_accelerator(device):
        alone = device.index is not None or _devices.backend(device) is None
        return 1 if alone else min(population, _devices.count(device))
    threads = 1 if recipe.threads == "auto" else recipe.threads
    return max(1, min(population, cpus() // threads))


def choose_threads(
    recipe: Recipe, multiply_adds: float, device: torch.device, workers: int | None = None
) -> int:
    """The CPUs shared out among the workers, at most two each for a small network; a given number stays.

    `workers` None: as many as auto takes, however many are asked for, since threads change bits.
    """
    if recipe.threads != "auto":
        return recipe.threads
    share = max(1, cpus() // (workers or choose_workers("auto", recipe, device)))
    return min(2, share) if multiply_adds <= SMALL_NETWORK else share
