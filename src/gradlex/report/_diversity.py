"""Diversity: numbers for what the eye sees in figure 2, each with a 95 % bootstrap interval over the test pictures.

Features are the (pictures, channels) activations of one layer of one run. A set of runs is told by the mean of its
runs' numbers.

The interval is the bootstrap of jackknife influence values (Davison and Hinkley, "Bootstrap Methods and their
Application", 1997, section 2.7): a picture's influence comes from the number without it, and a resample, pictures
drawn with replacement, moves the estimate by the mean influence of what it drew. The ordinary bootstrap would not do:
a picture drawn twice adds no direction, so every resample's rank would lie far below the estimate and follow the
number of distinct pictures in it. For the share of zeros the two are the same.

All runs of a set answer to the same pictures, so a resample draws pictures once for all of them. Where there are
several runs, it draws runs with replacement too (Owen, "The pigeonhole bootstrap", 2007): the same seeds for all sets
that have them in common. With one run the interval says nothing about another seed, and with two or three it is rough
and rather too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Features: TypeAlias = npt.NDArray[np.floating]
Values: TypeAlias = npt.NDArray[np.float64]

BINS = 50
RESAMPLES = 1_000
_PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number of a set of runs."""

    mean: float
    low: float
    high: float
    """The 95 % interval of the mean."""
    runs: tuple[float, ...] = ()
    """The number of each run."""
    resamples: Values = field(repr=False, compare=False)
    """The mean in each resample: the same pictures in all estimates of a seed, and the same runs of a pairing."""

    def minus(self, other: Estimate) -> Estimate:
        """How far this is above another on the same pictures, resample by resample."""
        return _estimate(self.mean - other.mean, self.resamples - other.resamples)

    def times(self, factor: float) -> Estimate:
        """In other units."""
        return Estimate(
            mean=factor * self.mean,
            low=factor * self.low,
            high=factor * self.high,
            runs=tuple(factor * value for value in self.runs),
            resamples=factor * self.resamples,
        )


def _estimate(mean: float, resamples: Values, runs: tuple[float, ...] = ()) -> Estimate:
    low, high = np.percentile(resamples, _PERCENTILES)
    return Estimate(mean=mean, low=float(low), high=float(high), runs=runs, resamples=resamples)


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """The numbers of one layer for a set of runs."""

    zeros: Estimate
    entropy: Estimate
    effective_rank: Estimate

    def minus(self, other: Diversity) -> Diversity:
        """How far each number is above another set's."""
        return Diversity(
            zeros=self.zeros.minus(other.zeros),
            entropy=self.entropy.minus(other.entropy),
            effective_rank=self.effective_rank.minus(other.effective_rank),
        )


def diversity(
    runs: Sequence[Features], edges: Values, *, seed: int = 0, pairing: Sequence[int] = ()
) -> Diversity:
    """The three numbers of one layer, for runs on the same pictures, at least two; `edges` as in `entropy`.

    Sets of runs with the same `pairing` are resampled together, run by run; others on their own.
    """
    return Diversity(
        zeros=_within(bootstrap(share_of_zeros, runs, seed=seed, pairing=pairing), 0.0, 1.0),
        entropy=bootstrap(lambda features: entropy(features, edges), runs, seed=seed, pairing=pairing),
        effective_rank=bootstrap(effective_rank, runs, seed=seed, pairing=pairing),
    )


def _within(estimate: Estimate, least: float, most: float) -> Estimate:
    """An interval cut to what is possible."""
    return replace(estimate, low=max(estimate.low, least), high=min(estimate.high, most))


def share_of_zeros(features: Features) -> float:
    """The part, from 0 to 1, of all values that are exactly 0: channels that answer nowhere in a picture."""
    return float((features == 0).mean())


def common_edges(sets: Iterable[Features]) -> Values:
    """The edges of 50 bins of equal width from the least to the greatest value of all that is compared."""
    ends = [(float(features.min()), float(features.max())) for features in sets]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return np.linspace(low, high if high > low else low + 1, BINS + 1)


def entropy(features: Features, edges: Values) -> float:
    """Shannon entropy, in nats, of the histogram of all values of all channels.

    -sum of p log p over the bins, p being the part of the values in a bin: 0 where all fall into one, log 50 where
    they are spread evenly from the first edge to the last. With edges common to what is compared, larger activations
    count as more spread out, as they look in the figure.
    """
    return _entropy(np.histogram(features, edges)[0])


def effective_rank(features: Features) -> float:
    """Roy and Vetterli, "The effective rank: a measure of effective dimensionality", EUSIPCO 2007.

    The exponential of the Shannon entropy of the singular values, divided by their sum, of the (pictures, channels)
    matrix as it is, not centred: 1 where all pictures answer alike up to a factor, n for n orthogonal directions of
    equal strength; 0 for a matrix of zeros.
    """
    matrix = features.astype(np.float64)
    # The smaller Gram matrix has the singular values, squared, and is many times faster to decompose.
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    squares = np.linalg.eigvalsh(gram)
    rounding = squares[-1] * len(squares) * np.finfo(np.float64).eps
    strengths = np.sqrt(squares[squares > rounding])
    return float(np.exp(_entropy(strengths))) if strengths.size else 0.0


def bootstrap(
    number: Callable[[Features], float], runs: Sequence[Features], *, seed: int, pairing: Sequence[int] = ()
) -> Estimate:
    """The mean of a number over runs, with its interval; a seed draws the same pictures, and by `pairing` runs."""
    pictures = _drawn(np.random.default_rng(seed), len(runs[0]))
    chosen = _drawn(np.random.default_rng([seed, *pairing]), len(runs))
    values = np.array([number(features) for features in runs])
    influences = np.stack([_influences(number, features) for features in runs])
    resampled = values + pictures @ influences.T  # (resamples, runs)
    return _estimate(float(values.mean()), (resampled * chosen).sum(axis=1), tuple(values.tolist()))


def _influences(number: Callable[[Features], float], features: Features) -> Values:
    """How far each picture moves the number, times the pictures; they sum to 0."""
    without = np.array([number(np.delete(features, picture, axis=0)) for picture in range(len(features))])
    influences: Values = (len(features) - 1) * (without.mean() - without)
    return influences


def _drawn(generator: np.random.Generator, count: int) -> Values:
    """The part that each of `count` has in `count` draws with replacement, (RESAMPLES, count)."""
    return generator.multinomial(count, np.full(count, 1 / count), size=RESAMPLES) / count


def _entropy(weights: npt.NDArray[np.integer] | Values) -> float:
    """Of weights divided by their sum."""
    shares = weights[weights > 0] / weights.sum()
    return abs(float((shares * np.log(shares)).sum()))  # abs: not -0.0
