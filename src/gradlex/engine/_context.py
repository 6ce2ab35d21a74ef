"""The surroundings that a candidate is computed in: threads, precision, the global generators."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from gradlex import _devices
from gradlex.randomness import callers_generators
from gradlex.recipe import Recipe


@contextmanager
def settings(recipe: Recipe) -> Iterator[None]:
    """Compute with the recipe's threads and determinism inside, and with the settings of before afterwards."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(1 if recipe.threads == "auto" else recipe.threads)
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    if recipe.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        if recipe.deterministic and workspace is None:
            del os.environ["CUBLAS_WORKSPACE_CONFIG"]
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators inside (dropout has no other), and put them back afterwards."""
    own = (
        {"devices": [device], "device_type": device.type}
        if _devices.is_accelerator(device)
        else {"devices": []}
    )
    with callers_generators(), torch.random.fork_rng(**own):
        reseed(seed, device)
        yield


def reseed(seed: int, device: torch.device) -> None:
    """Seed what a network on this device may draw from. torch.manual_seed would seed every other device too."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if _devices.is_accelerator(device):
        _devices.seed(device, seed)


def autocast(recipe: Recipe, device: torch.device, *, swaps: bool = False) -> torch.autocast:
    """The recipe's precision; weights and their gradients stay as they are.

    Autocast may keep its casts of the parameters until it ends, and would not notice another candidate's
    weights behind the same parameters: where candidates are swapped inside, `swaps` forbids it.
    """
    enabled = recipe.precision == "bfloat16"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled, cache_enabled=not swaps)
