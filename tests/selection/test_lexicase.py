from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gradlex.selection import TableErrors, batch_lexicase, epsilon_lexicase, lexicase

SLICES = (1, 2, 3, 32, 1000)


def random_table(rng: np.random.Generator) -> np.ndarray:
    """All kinds: few failures, many, all failing, ties, graded, infinite, repeated candidates."""
    population, cases = rng.integers(1, 9), rng.integers(1, 40)
    kind = rng.integers(4)
    if kind == 3:
        table = rng.integers(0, 4, (population, cases)).astype(float)
    else:
        table = (rng.random((population, cases)) < (0.02, 0.5, 1.0)[kind]).astype(float)
    if rng.random() < 0.3:
        table[rng.integers(population)] = table[rng.integers(population)]
    if rng.random() < 0.1:
        table[rng.integers(population), rng.integers(cases)] = np.inf
    return table


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
def test_lexicase_equals_the_case_by_case_reference_for_every_slice_size(on_all_fail, naive):
    rng = np.random.default_rng(0)
    reasons = set()
    for _ in range(2000):
        table = random_table(rng)
        order = rng.permutation(table.shape[1])
        pool, used, reason, trail = naive.walk(table, order, naive.lexicase_rule(on_all_fail))
        tie = np.random.default_rng(7)
        index = pool[tie.integers(len(pool))] if len(pool) > 1 else pool[0]
        for first_slice in SLICES:
            choice = lexicase(
                order,
                TableErrors(table),
                np.random.default_rng(7),
                on_all_fail=on_all_fail,
                _first_slice=first_slice,
            )
            assert (choice.index, choice.cases_used, choice.reason) == (index, used, reason)
            assert list(choice.survivors) == trail
            last = [used] if reason == "all_failed" else []
            assert list(choice.deciding) == [
                order[place - 1] for place in [*(place for place, _ in trail), *last]
            ]
        reasons.add(reason)
    expected = {"only_candidate", "sole_survivor", "exhausted"}
    assert reasons == expected | ({"all_failed"} if on_all_fail == "random" else set())


@pytest.mark.parametrize("epsilon", [None, 0.0, 0.7])
@pytest.mark.parametrize("mode", ["static", "semi-dynamic", "dynamic"])
def test_epsilon_lexicase_equals_the_case_by_case_reference(mode, epsilon, naive):
    rng = np.random.default_rng(1)
    for _ in range(150):
        table = random_table(rng) if rng.random() < 0.5 else rng.random((rng.integers(2, 9), 30)).round(1)
        order = rng.permutation(table.shape[1])
        pool, used, reason, trail = naive.walk(table, order, naive.epsilon_rule(mode, epsilon))
        for first_slice in (1, 3, 32):
            choice = epsilon_lexicase(
                order,
                TableErrors(table),
                np.random.default_rng(7),
                epsilon=epsilon,
                epsilon_mode=mode,
                _first_slice=first_slice,
            )
            assert (choice.cases_used, choice.reason, list(choice.survivors)) == (used, reason, trail)
            assert list(choice.deciding) == [order[place - 1] for place, _ in trail]
            assert choice.index in pool


@pytest.mark.parametrize("case_batch", [1, 2, 3, 7, 1000])
def test_batch_lexicase_equals_the_batch_by_batch_reference(case_batch, naive):
    rng = np.random.default_rng(2)
    for _ in range(200):
        table = random_table(rng)
        order = rng.permutation(table.shape[1])
        pool, used, reason, trail = naive.walk(table, order, naive.batch_rule, case_batch)
        for first_slice in (1, 5, 32):
            choice = batch_lexicase(
                order,
                TableErrors(table),
                np.random.default_rng(7),
                case_batch=case_batch,
                _first_slice=first_slice,
            )
            assert (choice.cases_used, choice.reason, list(choice.survivors)) == (used, reason, trail)
            assert choice.index in pool


def test_candidates_that_diverged_are_not_asked_and_not_chosen():
    table = np.array([[0, 0, 0], [1, 0, 1], [0, 1, 1.0]])
    for seed in range(20):
        errors = TableErrors(table, candidates=[1, 2])
        choice = lexicase(np.random.default_rng(seed).permutation(3), errors, np.random.default_rng(seed))
        assert choice.index in (1, 2)


def test_survivors_alone_are_evaluated():
    table = np.ones((4, 1000))
    table[0, 0] = table[1, 0] = 0
    table[0, 500] = 0
    errors = TableErrors(table)
    lexicase(np.arange(1000), errors, np.random.default_rng(0), on_all_fail="survive", _first_slice=1)
    assert errors.evaluated <= 4 + 2 * 999


@settings(max_examples=150, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=st.sampled_from([0.0, 1.0]))
)
def test_the_chosen_one_is_never_dominated_under_the_classic_rule(table):
    order = np.random.default_rng(0).permutation(table.shape[1])
    index = lexicase(order, TableErrors(table), np.random.default_rng(1), on_all_fail="survive").index
    dominates = (table <= table[index]).all(axis=1) & (table < table[index]).any(axis=1)
    assert not dominates.any()
