"""Each strategy on one order of the cases: against the slow definitions, and by what it asks for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from gradlex.selection import (
    SELECTIONS,
    BatchLexicase,
    Dalex,
    DownsampledLexicase,
    EpsilonLexicase,
    InformedLexicase,
    Lexicase,
    TableErrors,
    Tournament,
    make_selection,
)

BITS = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 80)), elements=st.sampled_from([0.0, 1.0]))


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
def test_lexicase_equals_the_case_by_case_definition(on_all_fail, naive):
    rng = np.random.default_rng(0)
    reasons = set()
    for _ in range(600):
        table = naive.random_table(rng, cases=250)
        order = rng.permutation(table.shape[1])
        pool, used, reason, trail = naive.walk(table, order, naive.lexicase_rule(on_all_fail))
        tie = np.random.default_rng(7)
        index = pool[tie.integers(len(pool))] if len(pool) > 1 else pool[0]
        choice = Lexicase(on_all_fail=on_all_fail)(order, TableErrors(table), np.random.default_rng(7))
        assert (choice.index, choice.cases_used, choice.reason) == (index, used, reason)
        assert list(choice.survivors) == trail
        last = [used] if reason == "all_failed" else []
        assert list(choice.deciding) == [order[place - 1] for place in [*(place for place, _ in trail), *last]]
        reasons.add(reason)
    assert reasons == {"only_candidate", "sole_survivor", "exhausted"} | (
        {"all_failed"} if on_all_fail == "random" else set()
    )


@pytest.mark.parametrize("epsilon", [None, 0.0, 0.7, "each"])
@pytest.mark.parametrize("mode", ["static", "semi-dynamic", "dynamic"])
def test_epsilon_lexicase_equals_the_case_by_case_definition(mode, epsilon, naive):
    rng = np.random.default_rng(1)
    for _ in range(60):
        graded = rng.random((rng.integers(2, 9), 90)).round(1)
        table = naive.random_table(rng, cases=90) if rng.random() < 0.5 else graded
        within = rng.choice([0.0, 0.2, 2.0], table.shape[1]).tolist() if epsilon == "each" else epsilon
        order = rng.permutation(table.shape[1])
        pool, used, reason, trail = naive.walk(table, order, naive.epsilon_rule(mode, within))
        select = EpsilonLexicase(epsilon=within, mode=mode)
        choice = select(order, TableErrors(table), np.random.default_rng(7))
        assert (choice.cases_used, choice.reason, list(choice.survivors)) == (used, reason, trail)
        assert list(choice.deciding) == [order[place - 1] for place, _ in trail]
        assert choice.index in pool


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 1000])
def test_batch_lexicase_equals_the_batch_by_batch_definition(batch_size, naive):
    rng = np.random.default_rng(2)
    for _ in range(100):
        table = naive.random_table(rng, cases=90)
        order = rng.permutation(table.shape[1])
        pool, used, reason, trail = naive.walk(table, order, naive.batch_rule, batch_size)
        choice = BatchLexicase(batch_size=batch_size)(order, TableErrors(table), np.random.default_rng(7))
        assert (choice.cases_used, choice.reason, list(choice.survivors)) == (used, reason, trail)
        assert choice.index in pool


@settings(max_examples=100, deadline=None)
@given(BITS, st.integers(0, 100))
def test_the_chosen_candidate_is_never_dominated_under_the_classic_rule(table, seed):
    rng = np.random.default_rng(seed)
    index = Lexicase(on_all_fail="survive")(rng.permutation(table.shape[1]), TableErrors(table), rng).index
    dominates = (table <= table[index]).all(axis=1) & (table < table[index]).any(axis=1)
    assert not dominates.any()


@settings(max_examples=60, deadline=None)
@given(BITS, st.integers(0, 100), st.sampled_from(["random", "survive"]))
def test_only_the_first_of_equal_cases_matters(table, seed, rule):
    rng = np.random.default_rng(seed)
    order = rng.permutation(table.shape[1])
    _, first = np.unique(table[:, order], axis=1, return_index=True)
    select = Lexicase(on_all_fail=rule)
    whole = select(order, TableErrors(table), np.random.default_rng(1))
    short = select(order[np.sort(first)], TableErrors(table), np.random.default_rng(1))
    assert (whole.index, [pool for _, pool in whole.survivors]) == (short.index, [pool for _, pool in short.survivors])
    assert len(first) <= 2 ** len(table)


@pytest.mark.parametrize("name", SELECTIONS)
def test_one_candidate_is_chosen_without_a_look_and_identical_ones_are_chosen_alike(name, naive):
    select = make_selection(name)
    alone = naive.Asked(np.ones((4, 9)), candidates=[2])
    choice = select(np.arange(9), alone, np.random.default_rng(0))
    assert (choice.index, choice.reason, alone.calls) == (2, "only_candidate", [])
    rng = np.random.default_rng(0)
    table = TableErrors(np.tile(rng.integers(0, 2, 9), (3, 1)))
    naive.agree((select(rng.permutation(9), table, rng).index for _ in range(400)), np.full(3, 1 / 3))


@pytest.mark.parametrize("name", SELECTIONS)
def test_candidates_that_diverged_are_neither_asked_nor_chosen(name, naive):
    table = np.zeros((5, 50))
    table[[1, 3]] = np.random.default_rng(0).integers(0, 2, (2, 50))
    for seed in range(10):
        errors, rng = naive.Asked(table, candidates=[1, 3]), np.random.default_rng(seed)
        assert make_selection(name)(rng.permutation(50), errors, rng).index in (1, 3)
        assert all(set(pool) <= {1, 3} for _, pool in errors.calls)


def test_cases_are_evaluated_in_growing_slices_and_only_for_survivors(naive):
    table = np.ones((4, 1000))
    table[:2, 0] = 0
    table[0, 500] = 0
    errors = naive.Asked(table)
    choice = Lexicase(on_all_fail="survive")(np.arange(1000), errors, np.random.default_rng(0))
    assert (choice.index, choice.cases_used) == (0, 501)
    assert [(len(cases), pool) for cases, pool in errors.calls] == [
        (32, [0, 1, 2, 3]),
        (64, [0, 1]),
        (128, [0, 1]),
        (256, [0, 1]),
        (512, [0, 1]),
    ]


def test_a_depth_ends_the_selection_and_saves_evaluations(naive):
    errors = naive.Asked(np.zeros((4, 1000)))
    choice = Lexicase(depth=5)(np.arange(1000), errors, np.random.default_rng(0))
    assert (choice.reason, choice.cases_used, errors.evaluated) == ("exhausted", 5, 20)


@pytest.mark.parametrize(
    ("options", "everyone"),
    [({}, True), ({"mode": "static"}, True), ({"mode": "dynamic"}, False), ({"epsilon": 0.1}, False)],
)
def test_epsilon_lexicase_asks_the_whole_population_only_where_its_definition_needs_it(options, everyone, naive):
    table = np.zeros((5, 100))
    table[2:, 0] = 10.0
    table[0, 99] = 10.0
    errors = naive.Asked(table)
    choice = EpsilonLexicase(**options)(np.arange(100), errors, np.random.default_rng(0))
    assert (errors.evaluated == 5 * 100) is everyone  # the last case decides: all slices are asked for
    assert choice.index == 1


def test_the_deviation_is_the_median_of_finite_distances_with_the_mean_of_the_middle_two():
    # Median of 0, 1, 3, 10 is 2; distances 2, 1, 1, 8; their median 1.5: 1 is within it of the best, 3 isn't.
    table = np.array([[0.0], [1], [3], [10], [np.inf]])
    choice = EpsilonLexicase()(np.array([0]), TableErrors(table), np.random.default_rng(0))
    assert choice.survivors == ((1, (0, 1)),)


def test_downsampled_lexicase_looks_at_the_first_share_of_the_order(naive):
    table = np.ones((3, 100))
    table[1, 0] = 0
    table[2, 99] = 0
    for share in (0.01, 1e-9, 1.0):
        select = DownsampledLexicase(share=share, on_all_fail="survive")
        assert select(np.arange(100), TableErrors(table), np.random.default_rng(0)).index == 1
    choice = DownsampledLexicase(share=0.29)(np.arange(100), TableErrors(table * 0), np.random.default_rng(0))
    assert choice.cases_used == 29  # 0.29 * 100 is a little less than 29 in floating point


def run_informed(naive, generations: int, refresh: int, memory=None, start: int = 0):
    """A run of generations whose errors change; the memory goes from one to the next."""
    select = InformedLexicase(share=0.3, refresh=refresh)
    chosen, evaluated = [], []
    for generation in range(start, generations):
        rng = np.random.default_rng([7, generation])
        errors = naive.Asked((rng.random((4, 40)) < 0.3).astype(float), memory=memory)
        choice = select(rng.permutation(40), errors, rng)
        memory = choice.memory
        chosen.append((choice.index, choice.cases_used, choice.survivors))
        evaluated.append(errors.matrices)
    return chosen, evaluated, memory


@pytest.mark.parametrize("refresh", [1, 3, 100])
def test_informed_lexicase_evaluates_everything_every_so_many_generations(refresh, naive):
    _, evaluated, _ = run_informed(naive, 10, refresh)
    assert evaluated == [int(generation % refresh == 0) for generation in range(10)]


def test_informed_lexicase_resumes_exactly_from_its_memory(naive):
    whole, _, _ = run_informed(naive, 10, 4)
    for stop in range(1, 10):
        first, _, memory = run_informed(naive, stop, 4)
        saved = {name: np.array(array.tolist(), dtype=array.dtype) for name, array in memory.items()}
        rest, _, _ = run_informed(naive, 10, 4, saved, stop)
        assert first + rest == whole


def test_informed_lexicase_remembers_bits():
    errors = TableErrors((np.random.default_rng(0).random((8, 50_000)) < 0.1).astype(np.uint8))
    choice = InformedLexicase()(np.arange(50_000), errors, np.random.default_rng(0))
    assert sum(array.nbytes for array in choice.memory.values()) < 60_000


def test_dalex_separates_what_differs_only_far_below_the_heaviest_case():
    # No candidate in the pool of the first case is the population's best on the second; the third decides.
    table = np.array([[0, 1, 1], [0, 1, 0], [1, 0, 0.0]])
    rng = np.random.default_rng(0)
    chosen = [Dalex(sigma=1e5)(np.arange(3), TableErrors(table), rng) for _ in range(100)]
    assert {choice.index for choice in chosen} == {1, 2}
    assert all(len(choice.survivors[0][1]) == 1 for choice in chosen)


@pytest.mark.parametrize("sigma", [0, 1])
def test_dalex_weighs_an_infinite_error_more_than_any_other(sigma):
    table = np.array([[np.inf, 0.0], [1e9, 1e9], [np.inf, 5.0]])
    rng, select = np.random.default_rng(0), Dalex(sigma=sigma)
    assert {select(np.arange(2), TableErrors(table), rng).index for _ in range(30)} == {1}
    assert {select(np.arange(2), TableErrors(table[[0, 2]]), rng).index for _ in range(30)} == {0}


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_dalex_follows_the_closed_form_of_two_cases(sigma, naive):
    # The weight of case 0 is the logistic of d ~ N(0, 2 sigma^2); candidate 2 wins where it is in (0.4, 0.6).
    table = np.array([[0.0, 1.0], [1.0, 0.0], [0.4, 0.4]])
    share = 2 * stats.norm.cdf(np.log(0.6 / 0.4) / (sigma * np.sqrt(2))) - 1
    rng, select = np.random.default_rng(5), Dalex(sigma=sigma)
    chosen = (select(np.arange(2), TableErrors(table), rng).index for _ in range(3000))
    naive.agree(chosen, np.array([(1 - share) / 2, (1 - share) / 2, share]))


@pytest.mark.parametrize(
    "select",
    [BatchLexicase(batch_size=1), EpsilonLexicase(epsilon=0.0), DownsampledLexicase(share=1.0, on_all_fail="survive")],
    ids=str,
)
def test_at_its_limit_the_strategy_chooses_as_lexicase_does_order_by_order(select):
    rng = np.random.default_rng(3)
    for seed in range(200):
        table = TableErrors(rng.integers(0, 3, (5, 6)))
        order = rng.permutation(6)
        same = Lexicase(on_all_fail="survive")(order, table, np.random.default_rng(seed))
        assert select(order, table, np.random.default_rng(seed)).index == same.index


def test_a_tournament_larger_than_the_pool_is_the_whole_pool():
    table = TableErrors([[1, 1], [0, 1], [0, 0]])
    for size in (3, 9, None):
        choice = Tournament(size=size)(np.arange(2), table, np.random.default_rng(0))
        assert (choice.index, choice.reason, choice.survivors) == (2, "best_mean", ((2, (2,)),))
