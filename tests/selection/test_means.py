"""Mean errors: what nobody answers says nothing, and the order of the cases breaks no tie."""

from __future__ import annotations

import numpy as np
import pytest

from gradlex import InputError
from gradlex.selection import select_parents, selection_probabilities


def table_with_one_good_row():
    table = np.random.default_rng(0).random((5, 10))
    table[0] *= 0.1
    return table


@pytest.mark.parametrize(("method", "options"), [("tournament", {}), ("batch-lexicase", {"case_batch": 10})])
@pytest.mark.parametrize("worst", [np.nan, np.inf])
def test_a_case_that_nobody_answers_says_nothing(method, options, worst):
    table = table_with_one_good_row()
    table[:, 3] = worst
    assert set(select_parents(table, 50, method, rng=0, **options)) == {0}


def test_fewer_infinities_come_before_any_mean():
    table = [[np.inf, 0, 0, 0], [9, 9, 9, 9], [np.inf, np.inf, 0, 0]]
    assert selection_probabilities(table, method="tournament").tolist() == [0, 1, 0]
    assert selection_probabilities(table, method="tournament", tournament_size=2).tolist() == [
        1 / 3,
        2 / 3,
        0,
    ]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]])
def test_the_order_of_the_cases_breaks_no_tie(order):
    table = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.3, 0.3, 0.1]])[:, order]
    assert selection_probabilities(table, method="tournament").tolist() == [0.5, 0.5, 0]
    for method, options in (
        ("tournament", {}),
        ("dalex", {"sigma": 0}),
        ("batch-lexicase", {"case_batch": 3}),
    ):
        chosen = np.bincount(select_parents(table, 400, method, rng=1, **options), minlength=3)
        assert chosen[2] == 0
        assert chosen[:2].min() > 100


def test_means_that_differ_do_not_tie_however_small_they_are():
    assert selection_probabilities(
        [[1e-20, 0.0], [2e-20, 0.0], [5.0, 5.0]], method="tournament"
    ).tolist() == [1, 0, 0]


@pytest.mark.parametrize("table", [[[1, 2], [3]], [[object()]]])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(InputError, match="an error table"):
        select_parents(table, 1)


def test_a_sigma_that_would_overflow_is_refused():
    with pytest.raises(
        InputError, match=r"sigma must be a number of at least 0 and at most 1e\+300, got 1e\+308"
    ):
        select_parents(np.eye(4), 10, "dalex", sigma=1e308)
    assert len(select_parents(np.eye(4), 10, "dalex", sigma=1e300, rng=0)) == 10
