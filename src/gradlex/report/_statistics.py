"""Mean and deviation over seeds, and the paired t-test between two methods. The numbers are SciPy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

LEVEL = 0.95

_ROUNDING = 1e-11
"""A spread below this part of the numbers is rounding error, and a t-test of it means nothing."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Values of one method over its seeds."""

    mean: float
    std: float | None
    """Standard deviation with n - 1 in the denominator; None for one value."""
    n: int
    low: float | None = None
    high: float | None = None
    """The 95 % interval of the mean; None where the spread cannot be estimated."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One method minus another, over the seeds that both have."""

    mean: float
    low: float | None
    high: float | None
    """The 95 % interval; None for one pair, or where all pairs differ by the same amount."""
    p: float | None
    """Of the two-sided paired t-test; None where there is no interval."""
    n: int

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies wholly above or below zero; else 0: no conclusion."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > 0) - (self.high < 0)


def summarize(values: Sequence[float]) -> Summary:
    """The mean, standard deviation and 95 % interval of at least one value."""
    mean, n = float(stats.tmean(values)), len(values)
    if not _spread(values, values):
        return Summary(mean=mean, std=None if n == 1 else 0.0, n=n)
    std = float(stats.tstd(values))
    interval = stats.ttest_1samp(values, mean).confidence_interval(LEVEL)
    return Summary(mean=mean, std=std, n=n, low=float(interval.low), high=float(interval.high))


def paired(these: Mapping[int, float], those: Mapping[int, float]) -> Difference | None:
    """These minus those, paired by seed; None where they share no seed.

    Pairs that all differ by the same amount say nothing about the spread between seeds. A t-test would call such a
    difference certain, even from two seeds, so it gets neither an interval nor p.
    """
    seeds = sorted(these.keys() & those.keys())
    if not seeds:
        return None
    ours, theirs = [these[seed] for seed in seeds], [those[seed] for seed in seeds]
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
    mean, n = float(stats.tmean(differences)), len(seeds)
    if not _spread(differences, [*ours, *theirs]):
        return Difference(mean=mean, low=None, high=None, p=None, n=n)
    test = stats.ttest_1samp(differences, 0.0)
    interval = test.confidence_interval(LEVEL)
    return Difference(
        mean=mean, low=float(interval.low), high=float(interval.high), p=float(test.pvalue), n=n
    )


def _spread(values: Sequence[float], of: Sequence[float]) -> bool:
    """Whether values differ by more than the rounding error of the numbers they were computed from."""
    return max(values) - min(values) > _ROUNDING * max(map(abs, of))
