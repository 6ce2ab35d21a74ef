"""What seeds can tell: the paired t-test, Holm's adjustment, power. The numbers are SciPy's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import pandas as pd
from scipy import optimize, stats

LEVEL = 0.95
POWER = 0.8

_ROUNDING = 1e-11
"""A spread below this part of the numbers is rounding error, and a t-test of it means nothing."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One method minus another, over the seeds that both have.

    Attributes:
        by_seed: The difference of each seed.
        means: The mean of each method over these seeds.
        mean: The mean difference; NaN without a seed.
        interval: Its 95% interval, or None: for one seed, or if all seeds differ by the same amount.
        p: p of the two-sided paired t-test; None where there is no interval.
        error: The standard error of the mean; None where there is no interval.
    """

    by_seed: Mapping[int, float]
    means: tuple[float, float]
    mean: float
    interval: tuple[float, float] | None = None
    p: float | None = None
    error: float | None = None

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.by_seed)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Difference:
    """The first minus the second, paired by seed.

    Examples:
        >>> from gradlex.report.statistics import paired
        >>> lexicase, sgd = {0: 0.91, 1: 0.93, 2: 0.92}, {0: 0.90, 1: 0.91, 2: 0.91}
        >>> found = paired(lexicase, sgd)
        >>> round(found.mean, 4), round(found.p, 3), found.n
        (0.0133, 0.057, 3)
    """
    both = pd.DataFrame({"first": first, "second": second}, dtype=float).dropna().sort_index()
    if both.empty:
        return Difference(by_seed={}, means=(math.nan, math.nan), mean=math.nan)
    gaps = both["first"] - both["second"]
    means = fmean(both["first"]), fmean(both["second"])
    found = Difference(by_seed=gaps.to_dict(), means=means, mean=fmean(gaps))
    if np.ptp(gaps) <= _ROUNDING * both.abs().to_numpy().max():  # also a single seed
        return found
    test = stats.ttest_1samp(gaps, 0.0)
    low, high = map(float, test.confidence_interval(LEVEL))
    return replace(found, interval=(low, high), p=float(test.pvalue), error=float(gaps.sem()))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """The p-values of a family of tests, adjusted by Holm's method (1979); None counts as 1 and stays None.

    Examples:
        >>> from gradlex.report.statistics import holm
        >>> holm([0.01, None, 0.5])
        [0.03, None, 1.0]
    """
    known = np.array([1.0 if p is None else p for p in ps])
    order, factors = known.argsort(kind="stable"), np.arange(len(ps), 0, -1)
    known[order] = np.maximum.accumulate(factors * known[order]).clip(max=1.0)
    return [None if p is None else adjusted for p, adjusted in zip(ps, known.tolist(), strict=True)]


def power(shift: float, n: int, tests: int = 1) -> float:
    """The chance that a paired test finds a true difference of `shift` standard errors from n seeds.

    The test is two-sided at 0.05 divided by the number of tests, as Holm's method demands of the first of them.
    """
    critical = stats.t.isf((1 - LEVEL) / 2 / tests, n - 1)
    return float(stats.nct.sf(critical, n - 1, shift))  # the other tail adds nothing here


def detectable(difference: Difference, tests: int = 1) -> float | None:
    """The true difference that this many seeds with this scatter find four times out of five."""
    if difference.error is None:
        return None
    n, most = difference.n, 3 * stats.t.isf((1 - LEVEL) / 2 / tests, difference.n - 1) + 3
    return difference.error * float(optimize.brentq(lambda shift: power(shift, n, tests) - POWER, 0.1, most))


def seeds_needed(difference: Difference, tests: int = 1) -> int | None:
    """How many seeds find the observed difference four times out of five; None if unknown or above 100."""
    if difference.error is None or difference.mean == 0:
        return None
    shift_of_one = abs(difference.mean) / (difference.error * difference.n**0.5)
    enough = (n for n in range(2, 101) if power(min(shift_of_one * n**0.5, 30.0), n, tests) >= POWER)
    return next(enough, None)
