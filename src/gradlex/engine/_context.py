"""The surroundings that a candidate is computed in: threads, precision, torch's global generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gradlex.recipe import Recipe


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with this many threads inside, and with as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def torch_generator(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators inside (dropout has no other), and put them back afterwards."""
    devices = [] if device.type == "cpu" else [device]
    kind = "cuda" if device.type == "cpu" else device.type
    with torch.random.fork_rng(devices=devices, device_type=kind):
        torch.manual_seed(seed)
        yield


def autocast(recipe: Recipe, device: torch.device) -> torch.autocast:
    """The recipe's precision; weights and their gradients stay as they are."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=recipe.precision == "bfloat16")
