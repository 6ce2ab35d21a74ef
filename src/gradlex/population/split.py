"""How a generation's samples are dealt out: p disjoint parts, and the mini-batches of each part."""

from __future__ import annotations

import numpy as np

from gradlex.selection.protocol import Indices


def split(num_samples: int, size: int, rng: np.random.Generator) -> list[Indices]:
    """Deal all samples into `size` random parts whose sizes differ by at most one (paper, section 3.1).

    Each part comes in random order, which is the order it is trained in.

    Examples:
        >>> import numpy as np
        >>> from gradlex.population.split import split
        >>> parts = split(10, 3, np.random.default_rng(0))
        >>> [len(part) for part in parts]
        [4, 3, 3]
        >>> sorted(np.concatenate(parts).tolist())  # together they hold every sample once
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    return np.array_split(rng.permutation(num_samples), size)


def batches(part: Indices, batch_size: int) -> list[Indices]:
    """Cut a part into consecutive mini-batches whose sizes differ by at most one.

    None is larger than `batch_size`, and none is below half of it: a short last batch would be a step at the full
    learning rate on a few samples, just before selection looks. Where a batch would hold a single sample, which batch
    norm cannot train on, the batches become one larger instead.

    Examples:
        >>> import numpy as np
        >>> from gradlex.population.split import batches
        >>> [len(batch) for batch in batches(np.arange(10), 4)]
        [4, 3, 3]
    """
    count = -(-len(part) // batch_size)
    if count > 1 and batch_size > 1 and len(part) // count < 2:
        count -= 1
    return np.array_split(part, count)
