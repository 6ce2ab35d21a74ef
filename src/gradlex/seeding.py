"""The global random generators, seeded for a while: dropout, a DataLoader's order and much else have no other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed Python's, NumPy's and torch's global generators inside, and put them back afterwards.

    Examples:
        >>> import torch
        >>> from gradlex.population import seeded
        >>> with seeded(0, torch.device("cpu")):
        ...     first = torch.rand(1)
        >>> with seeded(0, torch.device("cpu")):
        ...     print(torch.equal(first, torch.rand(1)))
        True
    """
    with kept_generators(device):
        reseed(seed, device)
        yield


@contextmanager
def kept_generators(device: torch.device) -> Iterator[None]:
    """Put the global generators back afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    accelerator = device.type not in ("cpu", "meta")
    forked = {"devices": [device], "device_type": device.type} if accelerator else {"devices": []}
    with torch.random.fork_rng(**forked):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def reseed(seed: int, device: torch.device) -> None:
    """Seed the generators that a network on this device may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # torch.manual_seed would also seed every other device, which nothing puts back.
    torch.default_generator.manual_seed(seed)
    if device.type not in ("cpu", "meta"):
        torch.get_device_module(device).manual_seed(seed)
