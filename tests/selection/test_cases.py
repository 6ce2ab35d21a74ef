"""Cases that are groups, weigh more, come first, or are only some of the columns: on tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from gradlex.errors import InputError
from gradlex.selection import Cases, Choice, select_parents, selection_chances, selection_probabilities

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
def test_chances_and_parents_by_weight_and_priority_equal_the_enumeration_of_orders(
    table, weights, priority, naive
):
    given = Cases(weights=weights, priority=priority)
    exact = enumerated(
        table, np.ones(6) if weights is None else weights, np.zeros(6) if priority is None else priority
    )
    found = selection_chances(table, cases=given, on_all_fail="survive")
    assert found.exact
    np.testing.assert_allclose(found.values, exact, atol=1e-12)
    naive.agree(select_parents(table, 4000, rng=1, cases=given), exact)
    # Zero epsilon is lexicase, by code that selects one parent after another.
    naive.agree(select_parents(table, 800, "epsilon-lexicase", rng=2, cases=given, epsilon=0.0), exact)


def test_equal_weights_and_one_priority_change_no_parent():
    plain = select_parents(BINARY, 50, rng=0)
    same = Cases(weights=np.full(6, 2.5), priority=np.full(6, 7))
    np.testing.assert_array_equal(select_parents(BINARY, 50, rng=0, cases=same), plain)
    np.testing.assert_array_equal(select_parents(BINARY, 50, rng=0, cases=Cases()), plain)


def test_more_candidates_than_a_word_follow_weights_and_priorities_too(naive):
    table = np.vstack([BINARY, np.ones((70, 6))])
    for given in (Cases(weights=WEIGHTS), Cases(weights=WEIGHTS, priority=PRIORITY)):
        exact = selection_probabilities(table, cases=given, on_all_fail="survive")
        naive.agree(select_parents(table, 4000, rng=5, cases=given), exact)


def test_a_group_is_one_case_with_the_mean_error_of_its_columns():
    groups = ["b", "a", "b", "a", "c", "c"]
    means = np.stack([GRADED[:, [1, 3]], GRADED[:, [0, 2]], GRADED[:, [4, 5]]]).mean(axis=2).T
    for weights in (None, [2.0, 1.0, 0.0]):
        grouped = Cases(groups=groups, weights=weights)
        plain = Cases(weights=weights)
        np.testing.assert_array_equal(
            select_parents(GRADED, 60, rng=4, cases=grouped), select_parents(means, 60, rng=4, cases=plain)
        )
        np.testing.assert_allclose(
            selection_probabilities(GRADED, cases=grouped), selection_probabilities(means, cases=plain)
        )
    named = Cases(groups=groups, weights={"b": 0.5, "c": 0})
    listed = Cases(groups=groups, weights=[1.0, 0.5, 0.0])
    np.testing.assert_array_equal(
        select_parents(GRADED, 60, rng=4, cases=named), select_parents(GRADED, 60, rng=4, cases=listed)
    )


def test_groups_choose_whom_a_mean_over_all_columns_would_not():
    # Nine columns of a large group and one of a small one: the mean prefers 0, half of the orders of groups do not.
    table = np.array([[0.0] * 9 + [1.0], [1.0] * 9 + [0.0]])
    assert set(select_parents(table, 30, "tournament", rng=0)) == {0}
    by_group = selection_probabilities(table, cases=Cases(groups=[0] * 9 + [1]))
    np.testing.assert_allclose(by_group, [0.5, 0.5])


def test_a_subset_is_a_mask_numbers_or_a_rule_on_the_errors():
    plain = select_parents(BINARY[:, [0, 2, 5]], 40, rng=6)
    mask = np.isin(np.arange(6), [0, 2, 5])
    for subset in (mask, [5, 0, 2], lambda errors: mask & (errors.shape == (5, 6))):
        np.testing.assert_array_equal(select_parents(BINARY, 40, rng=6, cases=Cases(subset=subset)), plain)

    def telling(errors):
        return (errors.min(axis=0) == 0) & (errors.max(axis=0) > 0)

    table = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    np.testing.assert_allclose(selection_probabilities(table, cases=Cases(subset=telling)), [0.5, 0.5])
    only_second = Cases(groups=[0, 0, 1, 1], subset=[1, 3])
    np.testing.assert_allclose(selection_probabilities(table, cases=only_second), [1, 0])


@pytest.mark.parametrize(
    "scores", [1 - BINARY, (1 - BINARY).astype(bool), -GRADED, (9 - GRADED).astype(np.uint8)]
)
def test_with_maximize_higher_is_better(scores):
    errors = -scores.astype(float)
    np.testing.assert_array_equal(
        select_parents(scores, 40, rng=7, cases=Cases(maximize=True)), select_parents(errors, 40, rng=7)
    )


def test_scores_of_0_and_1_keep_the_papers_rule():
    # 1 is solved: a case that nobody solves ends the selection, as it does in training.
    scores = np.array([[1, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(
        selection_probabilities(scores, cases=Cases(maximize=True)), selection_probabilities(1 - scores)
    )
    assert selection_probabilities(scores, cases=Cases(maximize=True))[1] > 0


def test_nan_is_the_worst_or_missing_from_its_group_or_refused():
    table = np.array([[np.nan, 0.0, 0.0, 0.4], [0.5, 0.5, 0.5, 0.5]])
    groups = [0, 0, 1, 1]
    np.testing.assert_allclose(selection_probabilities(table, cases=Cases(groups=groups)), [0.5, 0.5])
    np.testing.assert_allclose(
        selection_probabilities(table, cases=Cases(groups=groups, nan="missing")), [1, 0]
    )
    alone = np.array([[np.nan, np.nan, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    np.testing.assert_allclose(
        selection_probabilities(alone, cases=Cases(groups=groups, nan="missing")), [0.5, 0.5]
    )
    with pytest.raises(InputError, match="candidate 0 on column 0 is NaN"):
        select_parents(table, 3, cases=Cases(nan="refuse"))
    np.testing.assert_array_equal(
        select_parents(-table, 9, rng=0, cases=Cases(maximize=True)), select_parents(table, 9, rng=0)
    )


def test_tournament_takes_the_weighted_mean():
    table = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    assert set(select_parents(table, 20, "tournament", rng=0, cases=Cases(weights=[5, 1, 1]))) == {0}
    np.testing.assert_allclose(
        selection_probabilities(table, method="tournament", cases=Cases(weights=[1, 1, 1])), [0, 1]
    )


def test_a_strategy_of_ones_own_gets_the_cases_in_their_order():
    seen = []

    def first(cases, errors, rng) -> Choice:
        seen.append(cases.tolist())
        return Choice(index=0, reason="first")

    select_parents(BINARY, 5, first, rng=0, cases=Cases(priority=[5, 4, 3, 2, 1, 0]))
    assert seen == [[5, 4, 3, 2, 1, 0]] * 5


def test_torch_tensors_are_tables_whatever_they_are():
    same = select_parents(BINARY, 30, rng=8)
    tensor = torch.tensor(BINARY)
    for given in (tensor, tensor.bfloat16(), tensor.bool(), tensor.clone().requires_grad_()):
        np.testing.assert_array_equal(select_parents(given, 30, rng=8), same)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"weights": [1, 2]}, "weights must be a finite number for each of the 6 cases"),
        ({"weights": [1, 1, 1, 1, 1, np.nan]}, "weights must be a finite"),
        ({"weights": [1, 1, 1, 1, 1, -1]}, "at least 0, got -1"),
        ({"weights": np.zeros(6)}, "no case is left"),
        ({"groups": [1, 2]}, "each of the 6 columns"),
        ({"groups": [0, 0, 1, 1, np.nan, 2]}, "with NaN"),
        ({"groups": list("aabbcc"), "weights": {"d": 2}}, "the group 'd'"),
        ({"subset": []}, "subset"),
        ({"subset": [0, 6]}, "from 0 to 5, got 6"),
        ({"subset": [True, False]}, "a mask over the 6 columns"),
        ({"subset": np.zeros(6, dtype=bool)}, "the subset is empty"),
        ({"priority": "high"}, "priority must be a finite number"),
    ],
)
def test_a_description_that_does_not_fit_the_table_is_refused(fields, match):
    with pytest.raises(InputError, match=match):
        select_parents(BINARY, 3, cases=Cases(**fields))


def test_what_has_no_meaning_is_refused():
    with pytest.raises(InputError, match="there are no groups"):
        Cases(nan="missing")
    with pytest.raises(InputError, match="weights by name need groups"):
        Cases(weights={"a": 1})
    with pytest.raises(InputError, match=r"gradlex\.selection\.Cases, got dict"):
        select_parents(BINARY, 3, cases={"groups": [0]})
    weighted = Cases(weights=WEIGHTS)
    for method in ("dalex", "plexicase", "informed-lexicase", "downsampled-lexicase", "random"):
        with pytest.raises(InputError, match="use one of lexicase, epsilon-lexicase, batch-lexicase"):
            select_parents(BINARY, 3, method, cases=weighted)
    with pytest.raises(InputError, match="takes a mean"):
        select_parents(BINARY, 3, "tournament", cases=Cases(priority=PRIORITY))
    with pytest.raises(InputError, match="leave depth out"):
        selection_chances(BINARY, cases=weighted, depth=2)


def test_some_of_the_columns_have_the_same_description():
    taken = np.array([4, 1, 0])
    whole = Cases(groups=list("aabbcc"), weights=[1.0, 2.0, 3.0], subset=[0, 1, 4]).take(taken)
    own = whole.resolve(3)
    assert own.names.tolist() == ["a", "c"]
    assert [member.tolist() for member in own.members] == [[1, 2], [0]]
    np.testing.assert_allclose(own.weights, [1 / 3, 1])
    alone = Cases(weights=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).take(taken).resolve(3)
    np.testing.assert_allclose(alone.weights, [1, 0.4, 0.2])
