"""How a generation's samples are dealt out: p disjoint subsets, and each subset's mini-batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.intp]


def split(num_samples: int, population: int, rng: np.random.Generator) -> list[Indices]:
    """Deal all samples into `population` random subsets whose sizes differ by at most one.

    Each subset comes in random order, which is the order it is trained in.
    """
    return np.array_split(rng.permutation(num_samples), population)


def batches(subset: Indices, batch_size: int) -> list[Indices]:
    """Cut a subset into consecutive mini-batches.

    A last batch of one sample joins the batch before it: batch norm cannot train on a single one.
    """
    starts = list(range(0, len(subset), batch_size))
    if len(starts) > 1 and len(subset) - starts[-1] == 1:
        starts.pop()
    return np.split(subset, starts[1:])
