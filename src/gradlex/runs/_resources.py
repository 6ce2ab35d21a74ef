"""How many workers and threads, and which precision: rules from processors, devices, population and network.

A rule, never a timing, so that the same recipe on the same machine is always the same run.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

import torch

from gradlex.recipe import Recipe

SMALL_NETWORK = 150e6
"""Multiply-adds a sample up to which a network trains faster in several processes than with several threads.

Measured with two processors, two processes of one thread against one of two: 1.65 times faster at 1 million
multiply-adds, 1.1 to 1.5 at 9 to 41, 1.1 at 125 (resnet56) and 139 (resnet18 of half width), 0.95 at 555
(resnet18). So processes come first. One with processors to spare is 1.2 to 1.9 times faster with two threads than
with one; more than two have not been measured on so small a network.
"""


class Chosen(NamedTuple):
    """A number of workers or threads, and why it is that number."""

    number: int
    why: str


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_workers(asked: int | Literal["auto"], recipe: Recipe, device: torch.device) -> Chosen:
    """As many processes as there are candidates and places for them to compute; an asked number stays."""
    if asked != "auto":
        return Chosen(asked, "as asked for")
    population = recipe.require("population")
    if device.type == "cuda" and device.index is None:
        devices = torch.cuda.device_count()
        return Chosen(min(population, devices), f"{population} candidate(s), {devices} CUDA device(s)")
    if device.type != "cpu":
        return Chosen(1, f"{device} is one device")
    threads = 1 if recipe.threads == "auto" else recipe.threads
    each = f", {threads} threads each" if threads > 1 else ""
    why = f"{population} candidate(s), {processors()} processor(s){each}"
    return Chosen(max(1, min(population, processors() // threads)), why)


def choose_threads(
    recipe: Recipe, multiply_adds: float, device: torch.device, workers: int | None = None
) -> Chosen:
    """The processors shared out among the workers, at most two for a small network; a given number stays.

    `workers` None: as many as auto takes, however many are asked for, since threads change bits.
    """
    if recipe.threads != "auto":
        return Chosen(recipe.threads, "as the recipe has it")
    of_auto = "" if workers else " of auto"
    workers = workers or choose_workers("auto", recipe, device).number
    share = max(1, processors() // workers)
    small = multiply_adds <= SMALL_NETWORK
    most = ", at most 2 for a small network" if small else ""
    why = f"{processors()} processor(s) for the {workers} worker(s){of_auto}{most}"
    return Chosen(min(2, share) if small else share, why)


def native_bfloat16(device: torch.device) -> bool:
    """Whether the device computes bfloat16 itself rather than emulating it."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False
