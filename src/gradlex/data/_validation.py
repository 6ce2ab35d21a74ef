"""The validation part: training samples that are set apart before anything is learnt from the others.

Neither a network nor a normalization, a table's encoding or a scale of targets may know them: they decide when to
stop and which model to keep.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradlex.randomness import stream
from gradlex.recipe import Recipe


def validation_samples(recipe: Recipe, num_samples: int) -> int:
    """How many of the training samples are the validation part."""
    return round((recipe.validation_fraction or 0) * num_samples)


def validation_numbers(recipe: Recipe, num_samples: int) -> npt.NDArray[np.intp]:
    """Which of the data's training samples are the validation part, by their numbers."""
    order = stream(recipe.seed, "validation").permutation(num_samples)
    return np.sort(order[: validation_samples(recipe, num_samples)])


def learnt_from(recipe: Recipe, num_samples: int) -> npt.NDArray[np.intp]:
    """All others, which a run may learn from: to train on, to select on, to normalize by."""
    return np.setdiff1d(np.arange(num_samples), validation_numbers(recipe, num_samples))
