"""Cases that are groups, weigh more, come first, or are only some of the columns: on tables and in training."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gradlex import InputError
from gradlex.selection import (
    Cases,
    Choice,
    EpsilonLexicase,
    Lexicase,
    Random,
    TableErrors,
    Tournament,
    make_selection,
    promoting,
    select_parents,
    selection_chances,
    selection_probabilities,
)

RNG = np.random.default_rng(3)
BINARY = (RNG.random((5, 6)) < 0.5).astype(float)
GRADED = RNG.integers(0, 3, (5, 6)).astype(float)
WEIGHTS = np.array([3.0, 0.5, 1.0, 0.0, 2.0, 1.0])
PRIORITY = np.array([1, 0, 2, 0, 1, 0])


def enumerated(table: np.ndarray, weights: np.ndarray, priority: np.ndarray) -> np.ndarray:
    """The chances by going through every order: each with its own chance, by weights and priorities."""
    cases = np.flatnonzero(weights > 0)
    chances = np.zeros(len(table))
    for order in itertools.permutations(cases):
        if list(priority[list(order)]) != sorted(priority[list(order)]):
            continue
        chance, left = 1.0, list(order)
        for case in order:
            now = [other for other in left if priority[other] == priority[case]]
            chance *= weights[case] / weights[now].sum()
            left.remove(case)
        pool = np.arange(len(table))
        for case in order:
            pool = pool[table[pool, case] == table[pool, case].min()]
        chances[pool] += chance / len(pool)
    return chances


@pytest.mark.parametrize("table", [BINARY, GRADED], ids=["binary", "graded"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("priority", [None, PRIORITY], ids=["one level", "levels"])
def test_chances_and_parents_by_weight_and_priority_equal_the_enumeration_of_orders(table, weights, priority, naive):
    given = Cases(weights=weights, priority=priority)
    exact = enumerated(table, np.ones(6) if weights is None else weights, np.zeros(6) if priority is None else priority)
    found = selection_chances(table, cases=given, on_all_fail="survive")
    assert found.exact
    np.testing.assert_allclose(found.values, exact, atol=1e-12)
    naive.agree(select_parents(table, 4000, rng=1, cases=given, on_all_fail="survive"), exact)
    naive.agree(select_parents(table, 4000, rng=1, cases=given, on_all_fail="survive", depth=6), exact)
    # Zero epsilon is lexicase, by code that selects one parent after another.
    naive.agree(select_parents(table, 600, "epsilon-lexicase", rng=2, cases=given, epsilon=0.0), exact)
    # In training the order is drawn by the strategy.
    select, errors, stream = given.strategy(Lexicase(on_all_fail="survive"), 6), TableErrors(table), RNG
    naive.agree((select(np.arange(6), errors, stream).index for _ in range(1500)), exact)


def test_equal_weights_and_one_priority_change_no_parent():
    plain = select_parents(BINARY, 50, rng=0)
    same = Cases(weights=np.full(6, 2.5), priority=np.full(6, 7))
    np.testing.assert_array_equal(select_parents(BINARY, 50, rng=0, cases=same), plain)
    np.testing.assert_array_equal(select_parents(BINARY, 50, rng=0, cases=Cases()), plain)


def test_more_candidates_than_a_word_follow_weights_and_priorities_too(naive):
    table = np.vstack([BINARY, np.ones((70, 6))])
    for given in (Cases(weights=WEIGHTS), Cases(weights=WEIGHTS, priority=PRIORITY)):
        exact = selection_probabilities(table, cases=given, on_all_fail="survive")
        naive.agree(select_parents(table, 4000, rng=5, cases=given, on_all_fail="survive"), exact)


def test_a_group_is_one_case_with_the_mean_error_of_its_columns():
    groups = ["b", "a", "b", "a", "c", "c"]
    means = np.stack([GRADED[:, [1, 3]], GRADED[:, [0, 2]], GRADED[:, [4, 5]]]).mean(axis=2).T
    for weights in (None, [2.0, 1.0, 0.0]):
        grouped, plain = Cases(groups=groups, weights=weights), Cases(weights=weights)
        parents = select_parents(GRADED, 60, rng=4, cases=grouped)
        np.testing.assert_array_equal(parents, select_parents(means, 60, rng=4, cases=plain))
        exact = selection_probabilities(GRADED, cases=grouped)
        np.testing.assert_allclose(exact, selection_probabilities(means, cases=plain))
    named = Cases(groups=groups, weights={"b": 0.5, "c": 0})
    listed = Cases(groups=groups, weights=[1.0, 0.5, 0.0])
    same = select_parents(GRADED, 60, rng=4, cases=listed)
    np.testing.assert_array_equal(select_parents(GRADED, 60, rng=4, cases=named), same)


def test_groups_choose_a_candidate_that_a_mean_over_all_columns_would_not():
    # Nine columns of a large group and one of a small one: the mean prefers 0, half of the orders of groups don't.
    table = np.array([[0.0] * 9 + [1.0], [1.0] * 9 + [0.0]])
    assert set(select_parents(table, 30, "tournament", rng=0)) == {0}
    by_group = selection_probabilities(table, cases=Cases(groups=[0] * 9 + [1]))
    np.testing.assert_allclose(by_group, [0.5, 0.5])


def test_a_subset_is_a_mask_or_numbers():
    plain = select_parents(BINARY[:, [0, 2, 5]], 40, rng=6)
    for subset in (np.isin(np.arange(6), [0, 2, 5]), [5, 0, 2]):
        np.testing.assert_array_equal(select_parents(BINARY, 40, rng=6, cases=Cases(subset=subset)), plain)
    table = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    np.testing.assert_allclose(selection_probabilities(table, cases=Cases(groups=[0, 0, 1, 1], subset=[1, 3])), [1, 0])


@pytest.mark.parametrize("scores", [1 - BINARY, (1 - BINARY).astype(bool), -GRADED, (9 - GRADED).astype(np.uint8)])
def test_with_maximize_higher_is_better(scores):
    errors = -scores.astype(float)
    same = select_parents(errors, 40, rng=7, on_all_fail="survive")
    found = select_parents(scores, 40, rng=7, cases=Cases(maximize=True), on_all_fail="survive")
    np.testing.assert_array_equal(found, same)


def test_scores_of_0_and_1_keep_the_papers_rule():
    # 1 is solved: a case that no candidate solves ends the selection, as it does in training.
    scores = np.array([[1, 0, 0], [0, 0, 0]])
    found = selection_probabilities(scores, cases=Cases(maximize=True))
    np.testing.assert_allclose(found, selection_probabilities(1 - scores))
    assert found[1] > 0


def test_nan_is_the_worst_or_missing_from_its_group():
    table = np.array([[np.nan, 0.0, 0.0, 0.4], [0.5, 0.5, 0.5, 0.5]])
    groups = [0, 0, 1, 1]
    np.testing.assert_allclose(selection_probabilities(table, cases=Cases(groups=groups)), [0.5, 0.5])
    np.testing.assert_allclose(selection_probabilities(table, cases=Cases(groups=groups, nan="missing")), [1, 0])
    alone = np.array([[np.nan, np.nan, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    np.testing.assert_allclose(selection_probabilities(alone, cases=Cases(groups=groups, nan="missing")), [0.5, 0.5])
    same = select_parents(table, 9, rng=0)
    np.testing.assert_array_equal(select_parents(-table, 9, rng=0, cases=Cases(maximize=True)), same)


def test_a_tournament_takes_the_weighted_mean():
    table = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    assert set(select_parents(table, 20, "tournament", rng=0, cases=Cases(weights=[5, 1, 1]))) == {0}
    np.testing.assert_allclose(selection_probabilities(table, "tournament", cases=Cases(weights=[1, 1, 1])), [0, 1])


def test_a_function_gets_the_cases_in_their_order():
    seen = []

    def first(cases, errors, rng) -> Choice:
        seen.append(cases.tolist())
        return Choice(index=0, reason="first")

    select_parents(BINARY, 5, first, rng=0, cases=Cases(priority=[5, 4, 3, 2, 1, 0]))
    assert seen == [[5, 4, 3, 2, 1, 0]] * 5


def test_in_training_only_the_samples_of_the_groups_used_are_evaluated(naive):
    groups = np.repeat(np.arange(50), 4)
    table = np.zeros((3, 200))
    table[1:, groups == 7] = 1
    errors = naive.Asked(table)
    select = Cases(groups=groups, priority=np.arange(50) != 7).strategy(Lexicase(), 200)
    choice = select(np.arange(200), errors, np.random.default_rng(0))
    assert (choice.index, choice.cases_used, choice.columns_used, choice.deciding) == (0, 1, 4, ())
    assert errors.evaluated == 3 * 32 * 4  # the first slice of groups
    assert str(select) == "lexicase(on_all_fail=survive) on 50 cases"


def test_in_training_a_subset_decides_by_samples_with_their_own_numbers(naive):
    table = np.zeros((3, 200))
    table[1:, 130] = 1
    errors = naive.Asked(table)
    choice = Cases(subset=[5, 130, 199]).strategy(Lexicase(), 200)(np.arange(200), errors, np.random.default_rng(0))
    assert (choice.index, choice.deciding) == (0, (130,))
    assert {case for cases, _ in errors.calls for case in cases} == {5, 130, 199}


def test_in_training_groups_have_graded_errors():
    assert "survive" in str(Cases(groups=[0, 0, 1]).strategy(Lexicase(), 3))
    with pytest.raises(InputError, match="these are graded"):
        Cases(groups=[0, 0, 1]).strategy(Lexicase(on_all_fail="random"), 3)
    assert str(Cases(subset=[0, 1]).strategy(Lexicase(), 3)) == "lexicase on 2 cases"


@pytest.mark.parametrize("promotion", ["expected", "average"])
def test_a_promotion_sees_the_described_cases(promotion):
    table = np.array([[0.0] * 9 + [1.0], [1.0] * 9 + [0.0]])
    cases = Cases(groups=[0] * 9 + [1], weights=[1, 3])
    select = promoting(promotion, cases.strategy(Lexicase(), 10))
    choice = select(np.arange(10), TableErrors(table), np.random.default_rng(0))
    expected = {0: 0.25, 1: 0.75} if promotion == "expected" else {0: 0.5, 1: 0.5}
    assert choice.weights == pytest.approx(expected)
    assert choice.reason == promotion


def test_an_epsilon_for_each_case_is_one_for_each_group():
    table = np.array([[0.0, 0.2, 0.5, 0.5], [0.3, 0.3, 0.0, 0.0]])
    cases = Cases(groups=[0, 0, 1, 1])
    select = cases.strategy(EpsilonLexicase(epsilon=[0.1, 1.0]), 4)
    rng = np.random.default_rng(0)
    assert {select(np.arange(4), TableErrors(table), rng).index for _ in range(20)} == {0}
    with pytest.raises(InputError, match="one for each of 2 cases, got 3"):
        select_parents(table, 3, EpsilonLexicase(epsilon=[1, 2, 3]), cases=cases)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": [1, 2]}, "weights must be a finite number for each of the 6 cases"),
        ({"weights": [1, 1, 1, 1, 1, np.nan]}, "weights must be a finite"),
        ({"weights": [1, 1, 1, 1, 1, -1]}, "at least 0, got -1"),
        ({"weights": np.zeros(6)}, "no case is left"),
        ({"groups": [1, 2]}, "each of the 6 columns"),
        ({"groups": [0, 0, 1, 1, np.nan, 2]}, "with NaN"),
        ({"groups": list("aabbcc"), "weights": {"d": 2}}, "the group 'd'"),
        ({"subset": []}, "subset must be"),
        ({"subset": [0, 6]}, "from 0 to 5"),
        ({"subset": [True, False]}, "a mask over the 6 columns"),
        ({"subset": np.zeros(6, dtype=bool)}, "subset must be"),
        ({"priority": "high"}, "priority must be a finite number"),
        ({"nan": "missing"}, "give groups too"),
        ({"nan": "zero"}, "nan must be 'worst' or 'missing'"),
        ({"weights": {"a": 1}}, "give groups too"),
        ({"maximize": 1}, "maximize must be True or False"),
    ],
)
def test_a_description_that_does_not_fit_the_table_is_an_error(fields, message):
    with pytest.raises(InputError, match=message):
        select_parents(BINARY, 3, cases=Cases(**fields))


@pytest.mark.parametrize("name", ["dalex", "plexicase", "informed-lexicase", "downsampled-lexicase"])
def test_a_selection_that_follows_no_order_has_no_weights(name):
    weighted = Cases(weights=WEIGHTS)
    for enter in (
        lambda: select_parents(BINARY, 3, name, cases=weighted),
        lambda: weighted.strategy(make_selection(name), 6),
    ):
        with pytest.raises(InputError, match="use lexicase, epsilon-lexicase or batch-lexicase"):
            enter()


def test_what_has_no_meaning_is_an_error():
    with pytest.raises(InputError, match="takes a mean"):
        select_parents(BINARY, 3, "tournament", cases=Cases(priority=PRIORITY))
    with pytest.raises(InputError, match="leave depth out"):
        selection_chances(BINARY, cases=Cases(weights=WEIGHTS), depth=2)
    with pytest.raises(InputError, match="are for tables"):
        Cases(maximize=True).strategy(Random(), 6)
    with pytest.raises(InputError, match="weights must be a finite number for each of the 4 cases"):
        Cases(weights=WEIGHTS).strategy(Lexicase(), 4)
    with pytest.raises(InputError, match="doesn't follow"):
        Cases(weights=WEIGHTS).strategy(Tournament(), 6)
