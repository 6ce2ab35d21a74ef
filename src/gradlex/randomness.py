"""Randomness is derived, never carried: (seed, purpose, generation, index) -> its own stream.

Every stream comes from NumPy's SeedSequence with a spawn key. Streams are independent of each other, resuming a run
needs no generator state, and it doesn't matter which process computes a candidate.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

# fmt: off
Purpose: TypeAlias = Literal[
    "initialization", "split", "augmentation", "dropout", "cases", "choice", "samples", "recalibration", "evaluation",
    "validation",
]
# fmt: on
_NUMBERS = dict(zip(get_args(Purpose), [*range(9), 12], strict=True))
"""They are part of every stored run: never change or reuse one. 9, 10 and 11 had a meaning before 1.0."""


def stream(seed: int, purpose: Purpose, generation: int = 0, index: int = 0) -> np.random.Generator:
    """The NumPy generator of one purpose, generation and candidate.

    Examples:
        >>> from gradlex.randomness import stream
        >>> order = stream(0, "cases", generation=7).permutation(5)
        >>> order.tolist() == stream(0, "cases", generation=7).permutation(5).tolist()
        True
        >>> order.tolist() == stream(0, "cases", generation=8).permutation(5).tolist()
        False
    """
    return np.random.default_rng(_sequence(seed, purpose, generation, index))


def torch_seed(seed: int, purpose: Purpose, generation: int = 0, index: int = 0) -> int:
    """A 63-bit seed for torch's global generator, for what draws from no other (dropout, initialization)."""
    return int(_sequence(seed, purpose, generation, index).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _sequence(seed: int, purpose: Purpose, generation: int, index: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(_NUMBERS[purpose], generation, index))
