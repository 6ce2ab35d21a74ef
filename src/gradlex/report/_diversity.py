"""Diversity: numbers for what figure 2 shows, of one layer of one run.

Features are the (images, channels) activations of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Features: TypeAlias = npt.NDArray[np.floating]
Values: TypeAlias = npt.NDArray[np.float64]

BINS = 50


def share_of_zeros(features: Features) -> float:
    """The part, from 0 to 1, of all values that are exactly 0: channels that are silent in an image."""
    return float((features == 0).mean())


def common_edges(sets: Iterable[Features]) -> Values:
    """The edges of 50 bins of equal width from the least to the greatest value of all that is compared."""
    ends = [(float(features.min()), float(features.max())) for features in sets]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return np.linspace(low, high if high > low else low + 1, BINS + 1)


def entropy(features: Features, edges: Values) -> float:
    """Shannon entropy, in nats, of the histogram of all values of all channels.

    -sum of p log p over the bins, where p is the part of the values in a bin: 0 where all fall into one, log 50 where
    they are spread evenly. With edges common to what is compared, larger activations count as more spread out, as
    they look in the figure.
    """
    return _entropy(np.histogram(features, edges)[0])


def effective_rank(features: Features) -> float:
    """Roy and Vetterli, "The effective rank: a measure of effective dimensionality", EUSIPCO 2007.

    The exponential of the Shannon entropy of the singular values, divided by their sum, of the (images, channels)
    matrix, not centred: 1 where all images have the same features up to a factor, n for n orthogonal directions of
    equal strength; 0 for a matrix of zeros.
    """
    matrix = features.astype(np.float64)
    # The smaller Gram matrix has the squared singular values and is many times faster to decompose.
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    squares = np.linalg.eigvalsh(gram)
    rounding = squares[-1] * len(squares) * np.finfo(np.float64).eps
    strengths = np.sqrt(squares[squares > rounding])
    return float(np.exp(_entropy(strengths))) if strengths.size else 0.0


NUMBERS: Mapping[str, Callable[[Features, Values], float]] = {
    "zeros": lambda features, _: 100 * share_of_zeros(features),
    "entropy": entropy,
    "effective rank": lambda features, _: effective_rank(features),
}
"""Per cent of zeros, entropy in nats, and effective rank, from features and the edges of a layer's bins."""


def _entropy(weights: npt.NDArray[np.integer] | Values) -> float:
    """Of weights divided by their sum."""
    shares = weights[weights > 0] / weights.sum()
    return abs(float((shares * np.log(shares)).sum()))  # abs: not -0.0
