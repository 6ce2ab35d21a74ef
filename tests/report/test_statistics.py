"""Differences, Holm's adjustment and power, against SciPy, enumeration and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gradlex.report.statistics import detectable, holm, paired, power, seeds_needed


def by_seed(values):
    return dict(enumerate(values))


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_a_difference_is_the_paired_t_test(n):
    first, second = np.random.default_rng(n).random((2, n)).tolist()
    found = paired(by_seed(first), by_seed(second))
    gaps = np.array(first) - np.array(second)
    mean, error = gaps.mean(), gaps.std(ddof=1) / math.sqrt(len(gaps))
    reach = stats.t.ppf(0.975, len(gaps) - 1) * error
    assert found.mean == pytest.approx(mean)
    assert found.interval == pytest.approx((mean - reach, mean + reach))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(mean / error), len(gaps) - 1))
    assert found.error == pytest.approx(error)


def test_only_shared_seeds_are_compared():
    found = paired({0: 0.5, 1: 0.6, 3: 0.9}, {1: 0.5, 2: 0.1, 3: 0.7})
    assert found.by_seed == pytest.approx({1: 0.1, 3: 0.2})
    assert found.means == pytest.approx((0.75, 0.6))
    assert paired({0: 1.0}, {1: 1.0}).n == 0


def test_swapping_the_methods_changes_the_sign_only():
    first, second = by_seed([0.5, 0.62, 0.57]), by_seed([0.48, 0.63, 0.5])
    there, back = paired(first, second), paired(second, first)
    assert (there.mean, there.interval[0], there.p) == pytest.approx((-back.mean, -back.interval[1], back.p))


@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_seeds_that_differ_by_the_same_amount_have_no_interval(gap):
    found = paired({0: 0.3 + gap, 1: 0.7 + gap, 2: 0.9 + gap}, {0: 0.3, 1: 0.7, 2: 0.9})
    assert found.mean == pytest.approx(gap)
    assert (found.interval, found.p, found.error) == (None, None, None)


def test_one_seed_has_a_difference_but_no_interval():
    found = paired({4: 0.5}, {4: 0.25})
    assert (found.mean, found.n, found.p) == (0.25, 1, None)
    assert detectable(found) is None
    assert seeds_needed(found) is None


def closed_test(ps, index):
    """Holm's adjusted p by its definition: the closed testing procedure with Bonferroni's test of each intersection."""
    others = [place for place in range(len(ps)) if place != index]
    sets = itertools.chain.from_iterable(itertools.combinations(others, size) for size in range(len(ps)))
    return max(min(1.0, (len(rest) + 1) * min([ps[index], *(ps[place] for place in rest)])) for rest in sets)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_with_bonferroni(ps):
    assert holm(ps) == pytest.approx([closed_test(ps, index) for index in range(len(ps))])


def test_a_comparison_without_p_counts_as_a_test():
    assert holm([0.01, None, 0.02]) == [pytest.approx(0.03), None, pytest.approx(0.04)]
    assert holm([]) == []


@pytest.mark.parametrize(("shift", "n", "tests"), [(2.0, 5, 1), (3.0, 4, 3), (1.0, 20, 1)])
def test_power_is_the_share_of_simulated_experiments_that_find_the_difference(shift, n, tests):
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((40_000, n)) + shift / math.sqrt(n)
    t = samples.mean(axis=1) / (samples.std(axis=1, ddof=1) / math.sqrt(n))
    share = (t > stats.t.isf(0.025 / tests, n - 1)).mean()
    assert power(shift, n, tests) == pytest.approx(share, abs=0.01)


def test_the_detectable_difference_has_a_power_of_four_fifths():
    found = paired(by_seed([0.5, 0.62, 0.57, 0.6]), by_seed([0.48, 0.63, 0.5, 0.52]))
    for tests in (1, 6):
        assert power(detectable(found, tests) / found.error, found.n, tests) == pytest.approx(0.8, abs=1e-6)
    assert detectable(found, 6) > detectable(found, 1)


def test_the_seeds_needed_are_the_fewest_that_find_the_observed_difference():
    found = paired(by_seed([0.5, 0.62, 0.57, 0.6]), by_seed([0.48, 0.63, 0.5, 0.52]))
    needed = seeds_needed(found)
    deviation = found.error * math.sqrt(found.n)

    def chance(n):
        shift = found.mean / deviation * math.sqrt(n)
        return stats.nct.sf(stats.t.isf(0.025, n - 1), n - 1, shift)

    assert chance(needed) >= 0.8 > chance(needed - 1)


def test_a_difference_far_below_the_scatter_needs_more_seeds_than_anybody_runs():
    found = paired({0: 0.5, 1: 0.6, 2: 0.7001}, {0: 0.6, 1: 0.5, 2: 0.7})
    assert seeds_needed(found) is None
