"""How a generation's samples are dealt out: p disjoint subsets, and each subset's mini-batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradlex.randomness import stream
from gradlex.recipe import Recipe

Indices = npt.NDArray[np.intp]


def split(num_samples: int, population: int, rng: np.random.Generator) -> list[Indices]:
    """Deal all samples into `population` random subsets whose sizes differ by at most one.

    Each subset comes in random order, which is the order it is trained in.

    Examples:
        >>> import numpy as np
        >>> from gradlex.population import split
        >>> subsets = split(10, population=3, rng=np.random.default_rng(0))
        >>> [len(subset) for subset in subsets]
        [4, 3, 3]
        >>> sorted(np.concatenate(subsets).tolist())  # together they hold every sample once
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    return np.array_split(rng.permutation(num_samples), population)


def deal(num_samples: int, recipe: Recipe, generation: int) -> list[Indices]:
    """The subsets of a generation's candidates.

    By default they are disjoint and together hold every sample once (Ding & Spector 2022, section 3.1). With
    `parts="all"` each candidate draws as many from all samples, in an order of its own (SWAP, Gupta et al. 2020;
    Lookaround, Zhang et al. 2023). `steps_per_generation` makes them longer or shorter: disjoint ones then go through
    the samples pass by pass, across generations.
    """
    population = recipe.population_at(generation)
    if recipe.parts == "all" and generation >= recipe.branch:  # until then there is only one part
        share, rest = divmod(recipe.samples_at(generation, num_samples), population)
        return [
            _drawn(num_samples, share + (index < rest), stream(recipe.seed, "split", generation, index))
            for index in range(population)
        ]
    if recipe.steps_per_generation is None:
        return split(num_samples, population, stream(recipe.seed, "split", generation))
    start = sum(recipe.samples_at(each, num_samples) for each in range(generation))
    stop = start + recipe.samples_at(generation, num_samples)
    passes = range(start // num_samples, -(-stop // num_samples))
    ahead = np.concatenate([stream(recipe.seed, "split", each).permutation(num_samples) for each in passes])
    first = start - passes.start * num_samples
    return np.array_split(ahead[first : first + stop - start], population)


def _drawn(num_samples: int, size: int, rng: np.random.Generator) -> Indices:
    """`size` of all samples, in random order; none a second time before every other was drawn."""
    count = -(-size // num_samples)
    return np.concatenate([rng.permutation(num_samples) for _ in range(count)])[:size]


def batches(subset: Indices, batch_size: int) -> list[Indices]:
    """Cut a subset into consecutive mini-batches whose sizes differ by at most one, none larger than `batch_size`.

    So none is below half of it. A short last batch would be a step at the full learning rate on a few samples, just
    before selection looks. Only where a batch would be a single sample, which batch norm cannot train on, do they
    become one larger.
    """
    count = -(-len(subset) // batch_size)
    if count > 1 and batch_size > 1 and len(subset) // count < 2:
        count -= 1
    return np.array_split(subset, count)
