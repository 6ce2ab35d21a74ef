"""Exact chances: against every order of the cases, against 0.2, and where they are estimated."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gradlex import InputError
from gradlex.selection import selection_chances, selection_probabilities

GOLDEN = json.loads(Path(__file__).with_name("golden_chances.json").read_text(encoding="utf-8"))


def tables(seed: int, how_many: int, levels: int | None = 2, cases: int = 5):
    """Small tables whose orders can all be gone through; `levels` None is continuous."""
    rng = np.random.default_rng(seed)
    for _ in range(how_many):
        shape = (int(rng.integers(1, 6)), int(rng.integers(1, cases + 1)))
        table = rng.random(shape) if levels is None else rng.integers(0, levels, shape).astype(float)
        if rng.random() < 0.3:
            table[0] = table[-1]
        yield table


def test_the_chances_of_a_hundred_tables_are_those_of_0_2():
    assert len(GOLDEN) == 100
    for golden in GOLDEN:
        table = [[int(digit) for digit in row] for row in golden["table"]]
        chances = selection_chances(table, golden["method"])
        np.testing.assert_allclose(chances.values, golden["chances"], rtol=0, atol=1e-13, err_msg=golden["method"])
        assert chances.exact
        assert not chances.standard_error.any()


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("depth", [None, 1, 2, 4])
def test_lexicase_on_0_1_errors_equals_the_enumeration_of_orders(depth, on_all_fail, naive):
    for table in tables(0, 25):
        exact = naive.enumerate_orders(table, naive.lexicase_rule(on_all_fail), depth=depth)
        found = selection_probabilities(table, on_all_fail=on_all_fail, depth=depth)
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("levels", [3, 6, None])
def test_lexicase_on_graded_errors_equals_the_enumeration_of_orders(levels, naive):
    for table in tables(1, 25, levels):
        exact = naive.enumerate_orders(table, naive.lexicase_rule())
        np.testing.assert_allclose(selection_probabilities(table, on_all_fail="survive"), exact, atol=1e-12)


@pytest.mark.parametrize(
    ("mode", "epsilon"),
    [("static", None), ("semi-dynamic", None), ("static", 1.0), ("semi-dynamic", 1.0), ("dynamic", 1.0)],
)
@pytest.mark.parametrize("levels", [4, None])
def test_epsilon_lexicase_equals_the_enumeration_of_orders(mode, epsilon, levels, naive):
    for table in tables(2, 20, levels):
        within = epsilon if levels or epsilon is None else 0.2
        exact = naive.enumerate_orders(table, naive.epsilon_rule(mode, within))
        found = selection_probabilities(table, "epsilon-lexicase", epsilon=within, mode=mode)
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("mode", ["static", "semi-dynamic", "dynamic"])
def test_an_epsilon_for_each_case_equals_the_enumeration_of_orders(mode, naive):
    rng = np.random.default_rng(6)
    for table in tables(6, 20, 4):
        table[:, -1] = table[:, 0]  # the same errors with two epsilons are two kinds of case
        within = rng.choice([0.0, 1.0, 2.0], table.shape[1]).tolist()
        exact = naive.enumerate_orders(table, naive.epsilon_rule(mode, within))
        found = selection_probabilities(table, "epsilon-lexicase", epsilon=within, mode=mode)
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("share", [0.01, 0.4, 1.0])
def test_downsampled_lexicase_equals_the_enumeration_of_samples_and_orders(share, on_all_fail, naive):
    for table in tables(3, 20):
        depth = max(1, round(share * table.shape[1]))
        exact = naive.enumerate_orders(table, naive.lexicase_rule(on_all_fail), depth=depth)
        found = selection_probabilities(table, "downsampled-lexicase", share=share, on_all_fail=on_all_fail)
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9, None])
def test_tournament_equals_the_enumeration_of_entrants(size):
    rng = np.random.default_rng(4)
    for _ in range(20):
        table = rng.integers(0, 3, (5, 3)).astype(float)
        means = table.mean(axis=1)
        exact = np.zeros(5)
        draws = list(itertools.combinations(range(5), min(size or 5, 5)))
        for entrants in draws:
            best = [i for i in entrants if means[i] == min(means[list(entrants)])]
            exact[best] += 1 / len(best) / len(draws)
        np.testing.assert_allclose(selection_probabilities(table, "tournament", size=size), exact, atol=1e-12)


def test_a_tournament_counts_infinities_first_and_ties_means_up_to_rounding():
    table = [[np.inf, 0, 0, 0], [9, 9, 9, 9], [np.inf, np.inf, 0, 0]]
    assert selection_probabilities(table, "tournament").tolist() == [0, 1, 0]
    for order in itertools.permutations(range(3)):
        tied = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.3, 0.3, 0.1]])[:, order]
        assert selection_probabilities(tied, "tournament").tolist() == [0.5, 0.5, 0]
    assert selection_probabilities([[1e-20, 0.0], [2e-20, 0.0]], "tournament").tolist() == [1, 0]


def test_plexicase_equals_a_table_worked_out_by_hand():
    # 0 is best on cases 0, 1; 1 on cases 1, 2; 2 on case 3; 3 is dominated by 0; 4 is best nowhere.
    table = np.array([[0, 0, 5, 5], [5, 0, 0, 5], [5, 5, 5, 0], [1, 0, 5, 5], [2, 2, 2, 2]])
    expected = np.array([1 + 1 / 2, 1 / 2 + 1, 1, 0, 0]) / 4
    np.testing.assert_allclose(selection_probabilities(table, "plexicase"), expected)
    squared = expected**2 / (expected**2).sum()
    np.testing.assert_allclose(selection_probabilities(table, "plexicase", alpha=2), squared)
    np.testing.assert_allclose(selection_probabilities(table, "plexicase", alpha=0), [1 / 3, 1 / 3, 1 / 3, 0, 0])
    # A case is shared in proportion to the cases on which each is best: here case 2 is shared 3 to 2.
    shared = [[0, 0, 0, 1], [1, 1, 0, 0]]
    np.testing.assert_allclose(selection_probabilities(shared, "plexicase"), [(2 + 3 / 5) / 4, (1 + 2 / 5) / 4])
    large = selection_probabilities(np.random.default_rng(0).random((30, 40)), "plexicase", alpha=2000)
    assert large.sum() == pytest.approx(1)


@settings(max_examples=60, deadline=None)
@given(arrays(np.uint8, st.tuples(st.integers(2, 5), st.integers(1, 12)), elements=st.integers(0, 1)))
def test_exact_facts_of_0_1_tables(table):
    classic = selection_probabilities(table, on_all_fail="survive")
    assert classic.sum() == pytest.approx(1)
    # Copies of all cases change nothing, and neither does their order.
    np.testing.assert_allclose(selection_probabilities(np.tile(table, 3), on_all_fail="survive"), classic)
    np.testing.assert_allclose(selection_probabilities(np.tile(table, 3)[:, ::-1]), selection_probabilities(table))
    # A candidate that no other beats anywhere and that beats each of them somewhere is always chosen.
    better = (table.T[:, :, None] < table.T[:, None, :]).any(axis=0)
    for best in range(len(table)):
        others = np.arange(len(table)) != best
        if not better[others, best].any() and better[best, others].all():
            assert classic[best] == pytest.approx(1)
    # Equal candidates have equal chances; alone they are uniform.
    np.testing.assert_allclose(selection_probabilities(np.tile(table[:1], (4, 1))), 0.25)


def test_the_last_candidate_of_defect_11_has_a_chance_of_a_sixteenth_under_the_papers_rule():
    table = [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]
    np.testing.assert_allclose(selection_probabilities(table), [0.3125, 0.3125, 0.3125, 0.0625])
    np.testing.assert_allclose(selection_probabilities(table, on_all_fail="survive"), [1 / 3, 1 / 3, 1 / 3, 0])


@pytest.mark.parametrize("depth", [None, 3])
def test_many_candidates_with_few_behaviors_have_exact_chances(depth):
    few = (np.random.default_rng(4).random((6, 40)) < 0.3).astype(float)
    owner = np.random.default_rng(5).integers(0, 6, 600)
    found = selection_chances(few[owner], on_all_fail="survive", depth=depth)
    assert found.exact
    assert found.values.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.values, found.values[[int((owner == own).argmax()) for own in owner]])
    if depth is None:
        alone = selection_probabilities(few, on_all_fail="survive")
        np.testing.assert_allclose(np.bincount(owner, found.values), alone, atol=1e-12)


def test_large_tables_that_have_few_pools_are_no_trouble():
    rng = np.random.default_rng(0)
    network = (rng.random((8, 50_000)) < 0.05).astype(np.float32)
    for rule in ("random", "survive"):
        assert selection_chances(network, on_all_fail=rule).exact
    continuous = rng.random((1500, 100))
    winners = np.bincount(continuous.argmin(axis=0), minlength=1500) / 100
    np.testing.assert_allclose(selection_probabilities(continuous), winners)
    chain = np.tril(np.ones((200, 200)), -1)[:, :199]  # each case drops some more candidates
    assert selection_probabilities(chain, on_all_fail="survive")[0] == pytest.approx(1)


def random_table(candidates: int, cases: int, seed: int = 0) -> np.ndarray:
    """The worst case: every candidate fails half of the cases at random."""
    return (np.random.default_rng(seed).random((candidates, cases)) < 0.5).astype(np.float32)


def test_what_would_take_too_long_is_estimated_alike_every_time_and_says_so():
    table = random_table(20, 5000)
    table[3] = 1
    chances = selection_chances(table, on_all_fail="survive")
    assert not chances.exact
    assert chances.values.sum() == pytest.approx(1)
    assert ((chances.standard_error > 0) & (chances.standard_error <= 0.0025)).all()
    assert chances.values[3] == 0  # never drawn, which doesn't make its chance known
    np.random.seed(1)  # the global generator has no part in it
    np.testing.assert_array_equal(selection_probabilities(table, on_all_fail="survive"), chances.values)


@pytest.mark.parametrize("method", ["lexicase", "lexicase(on_all_fail=survive, depth=30)", "downsampled-lexicase"])
def test_an_estimate_lies_within_its_standard_error_of_the_exact_answer(method):
    # Every candidate is as good as any other, since each case comes with all its rotations.
    columns = np.random.default_rng(1).random((20, 200)) < 0.5
    table = np.hstack([np.roll(columns, shift, axis=0) for shift in range(20)])
    estimated = selection_chances(table, method)
    assert not estimated.exact
    errors = np.abs(estimated.values - 1 / 20) / estimated.standard_error
    assert errors.max() < 4.5
    assert 0.3 < np.sqrt((errors**2).mean()) < 1.6


@pytest.mark.parametrize("method", ["batch-lexicase", "informed-lexicase", "dalex", "epsilon-lexicase(mode=dynamic)"])
def test_selections_without_an_exact_form_say_so_and_name_the_others(method):
    with pytest.raises(InputError, match=r"no exact probabilities; lexicase, .*tournament, random"):
        selection_probabilities(np.eye(3), method)
