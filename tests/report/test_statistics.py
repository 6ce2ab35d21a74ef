"""The statistics, against the textbook's formulas on the records of stored runs."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from gradlex.report import gather, paired, summarize
from gradlex.report._statistics import detectable, holm


@pytest.fixture
def arms(table2):
    evidence = gather(table2)
    return evidence.on(evidence.settings[0])


def test_mean_and_deviation_are_those_of_the_stored_results(arms):
    summary = arms["lexicase"].summary
    values = [70.31, 69.88, 70.62]
    assert summary.n == 3
    assert summary.mean == pytest.approx(statistics.mean(values))
    assert summary.std == pytest.approx(statistics.stdev(values))


def test_the_interval_of_a_mean_is_students(arms):
    summary = arms["lexicase"].summary
    half = stats.t.ppf(0.975, 2) * statistics.stdev([70.31, 69.88, 70.62]) / math.sqrt(3)
    assert (summary.low, summary.high) == pytest.approx((summary.mean - half, summary.mean + half))


def test_one_value_has_no_deviation_and_no_interval():
    summary = summarize([71.5])
    assert (summary.mean, summary.std, summary.n, summary.low, summary.high) == (71.5, None, 1, None, None)


def test_equal_values_have_a_deviation_of_zero_and_no_interval():
    summary = summarize([71.5, 71.5, 71.5])
    assert (summary.std, summary.low, summary.high) == (0.0, None, None)


def test_the_paired_test_is_the_t_test_of_the_differences(arms):
    difference = paired(arms["lexicase"].values, arms["SGD"].values)
    differences = [70.31 - 68.11, 69.88 - 67.42, 70.62 - 68.30]
    mean, error = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(3)
    half = stats.t.ppf(0.975, 2) * error
    assert difference.n == 3
    assert difference.mean == pytest.approx(mean)
    assert (difference.low, difference.high) == pytest.approx((mean - half, mean + half))
    assert difference.p == pytest.approx(2 * stats.t.sf(abs(mean / error), 2))
    assert difference.sign == 1


def test_a_known_example_of_a_paired_test():
    # Differences 1, 2, 3: t = 2 sqrt(3) with two degrees of freedom.
    difference = paired({0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0})
    assert difference.mean == pytest.approx(2)
    assert difference.p == pytest.approx(0.0741799)
    assert (difference.low, difference.high) == pytest.approx((-0.4841377, 4.4841377))
    assert difference.sign == 0


def test_only_seeds_that_both_have_are_paired():
    difference = paired({0: 1.0, 1: 9.0, 2: 4.0}, {2: 2.0, 0: 0.5, 5: 70.0})
    assert (difference.n, difference.mean) == (2, pytest.approx(1.25))


def test_without_a_common_seed_there_is_no_difference():
    assert paired({0: 1.0}, {1: 1.0}) is None


def test_one_pair_has_a_difference_and_nothing_more():
    difference = paired({4: 71.0}, {4: 70.0})
    assert (difference.mean, difference.low, difference.high, difference.p) == (1.0, None, None, None)
    assert difference.sign == 0


@pytest.mark.parametrize("others", [[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]])
def test_pairs_that_all_differ_by_the_same_support_nothing(others):
    these = dict(enumerate([0.1, 0.2, 0.3]))
    difference = paired(these, dict(enumerate(others)))
    assert (difference.low, difference.high, difference.p, difference.n) == (None, None, None, 3)
    assert difference.sign == 0


def test_a_difference_below_zero_has_a_negative_sign(arms):
    assert paired(arms["SGD"].values, arms["lexicase"].values).sign == -1


@pytest.mark.parametrize(
    ("ps", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.01, None, 0.02], [0.03, None, 0.04]),
        ([], []),
    ],
)
def test_holms_adjustment_multiplies_by_what_is_left_and_never_falls(ps, adjusted):
    assert holm(ps) == pytest.approx(adjusted)


@pytest.mark.parametrize(("n", "deviations"), [(3, 3.264), (5, 1.682), (10, 0.996), (30, 0.529)])
def test_the_detectable_difference_is_that_of_a_power_of_four_fifths(n, deviations):
    """Against tables of the paired t-test's power, in standard deviations of the differences."""
    values = np.linspace(-1, 1, n)
    difference = paired(dict(enumerate(values)), dict.fromkeys(range(n), 0.0))
    assert detectable(difference) == pytest.approx(deviations * values.std(ddof=1), abs=1e-3)


def test_a_family_of_tests_detects_less():
    difference = paired(dict(enumerate([0.1, 0.4, 0.2, 0.5, 0.3])), dict.fromkeys(range(5), 0.0))
    shift = detectable(difference, tests=4) / (stats.tstd([0.1, 0.4, 0.2, 0.5, 0.3]) / np.sqrt(5))
    assert stats.nct.sf(stats.t.isf(0.05 / 4 / 2, 4), 4, shift) == pytest.approx(0.8)


def test_without_an_interval_nothing_is_known_to_be_detectable():
    assert detectable(paired({0: 1.0}, {0: 2.0})) is None
