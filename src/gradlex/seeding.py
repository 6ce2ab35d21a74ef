"""The global random generators, seeded for a while: dropout, a DataLoader's order and much else have no other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed Python's, NumPy's and torch's global generators inside, and put them back afterwards.

    Examples:
        >>> import torch
        >>> from gradlex.seeding import seeded
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
    put_back = remember_generators(device)
    try:
        yield
    finally:
        put_back()


def remember_generators(device: torch.device) -> Callable[[], None]:
    """A function that puts the global generators back to where they are now."""
    python, numpy, host = random.getstate(), np.random.get_state(), torch.get_rng_state()
    own = None if device.type in ("cpu", "meta") else torch.get_device_module(device)
    state = None if own is None else own.get_rng_state(device)

    def put_back() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(host)
        if own is not None:
            own.set_rng_state(state, device)

    return put_back


def reseed(seed: int, device: torch.device) -> None:
    """Seed the generators that a network on this device may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # torch.manual_seed would also seed every other device, which nothing puts back.
    torch.default_generator.manual_seed(seed)
    if device.type not in ("cpu", "meta"):
        torch.get_device_module(device).manual_seed(seed)
