"""Mean and deviation over seeds, and the paired t-test between two methods. The numbers are SciPy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import optimize, stats

LEVEL = 0.95
POWER = 0.8

_ROUNDING = 1e-11
"""A spread below this part of the numbers is rounding error, and a t-test of it means nothing."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Values of one method over its seeds.

    Examples:
        >>> from gradlex.report import summarize
        >>> summarize([0.91]).std is None  # one value has no spread
        True
    """

    mean: float
    std: float | None
    """Standard deviation with n - 1 in the denominator; None for one value."""
    n: int
    low: float | None = None
    high: float | None = None
    """The 95 % interval of the mean; None where the spread cannot be estimated."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One method minus another, over the seeds that both have.

    Examples:
        >>> from gradlex.report import paired
        >>> found = paired({0: 0.91, 1: 0.93, 2: 0.92}, {0: 0.90, 1: 0.91, 2: 0.91})
        >>> round(found.low, 3), round(found.high, 3)
        (-0.001, 0.028)
        >>> found.sign  # the interval holds zero: no conclusion
        0
    """

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
    """The mean, standard deviation and 95 % interval of at least one value.

    Examples:
        >>> from gradlex.report import summarize
        >>> found = summarize([0.91, 0.93, 0.92])
        >>> round(found.mean, 3), round(found.std, 3), (round(found.low, 3), round(found.high, 3))
        (0.92, 0.01, (0.895, 0.945))
    """
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

    Examples:
        >>> from gradlex.report import paired
        >>> lexicase, sgd = {0: 0.91, 1: 0.93, 2: 0.92}, {0: 0.90, 1: 0.91, 2: 0.91}  # by seed
        >>> found = paired(lexicase, sgd)
        >>> round(found.mean, 4), round(found.p, 3), found.n
        (0.0133, 0.057, 3)
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


def unpaired(these: Sequence[float], those: Sequence[float]) -> Difference:
    """These minus those by Welch's t-test, for runs that have no seeds in common."""
    mean, n = float(stats.tmean(these) - stats.tmean(those)), min(len(these), len(those))
    if n == 1 or not (_spread(these, these) or _spread(those, those)):
        return Difference(mean=mean, low=None, high=None, p=None, n=n)
    test = stats.ttest_ind(these, those, equal_var=False)
    interval = test.confidence_interval(LEVEL)
    return Difference(
        mean=mean, low=float(interval.low), high=float(interval.high), p=float(test.pvalue), n=n
    )


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's adjustment (1979) of the p-values of a family of tests; None, a test without one, counts as 1."""
    known = [1.0 if p is None else p for p in ps]
    adjusted, highest = dict[int, float](), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=known.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * known[place]))
        adjusted[place] = highest
    return [None if p is None else adjusted[place] for place, p in enumerate(ps)]


def detectable(difference: Difference, tests: int = 1) -> float | None:
    """The true difference that so many seeds with this scatter find with probability 0.8; None without an interval.

    By the non-central t distribution, for a two-sided paired test at 0.05 divided by the number of tests: what Holm's
    method asks of the first of them.
    """
    if difference.low is None or difference.high is None:
        return None
    freedom = difference.n - 1
    error = (difference.high - difference.low) / 2 / float(stats.t.ppf((1 + LEVEL) / 2, freedom))
    critical = float(stats.t.isf((1 - LEVEL) / 2 / tests, freedom))

    # The other tail adds nothing at such a power, and nct is undefined far out there.
    found = optimize.brentq(
        lambda shift: float(stats.nct.sf(critical, freedom, shift)) - POWER, 0.1, 3 * critical + 3
    )
    return error * float(found)


def _spread(values: Sequence[float], of: Sequence[float]) -> bool:
    """Whether values differ by more than the rounding error of the numbers they were computed from."""
    return max(values) - min(values) > _ROUNDING * max(map(abs, of))
