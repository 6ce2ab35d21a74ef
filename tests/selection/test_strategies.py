from __future__ import annotations

import numpy as np
import pytest

from gradlex.selection import TableErrors, bind, lexicase
from gradlex.selection._dalex import lightest
from gradlex.selection._epsilon_lexicase import median_absolute_deviation
from gradlex.selection._informed_lexicase import farthest_first, solve_vectors

ORDER = np.arange(6)


class Counting(TableErrors):
    """Counts how often everything was evaluated."""

    matrices = 0

    def matrix(self):
        self.matrices += 1
        return super().matrix()


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two():
    # Median of 0, 1, 3, 10 is 2; deviations 2, 1, 1, 8; their median 1.5.
    assert median_absolute_deviation(np.array([[0.0], [1], [3], [10]])).tolist() == [1.5]
    assert median_absolute_deviation(np.array([[0.0, 4.0], [1, 4], [5, 4]])).tolist() == [1.0, 0.0]


def test_the_deviation_leaves_out_what_is_not_finite():
    table = np.array([[0.0, np.inf], [2.0, np.inf], [np.inf, np.inf]])
    assert median_absolute_deviation(table).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("options", "everyone"),
    [
        ({}, True),
        ({"epsilon_mode": "static"}, True),
        ({"epsilon_mode": "dynamic"}, False),
        ({"epsilon": 0.1}, False),
    ],
)
def test_epsilon_lexicase_asks_the_whole_population_only_where_its_definition_needs_it(options, everyone):
    table = np.zeros((5, 100))
    table[2:, 0] = 10.0
    table[0, 99] = 10.0
    errors = TableErrors(table)
    choice = bind("epsilon-lexicase", **options)(np.arange(100), errors, np.random.default_rng(0))
    assert (errors.evaluated == 5 * 100) is everyone  # the last case decides: all slices are asked for
    assert choice.index == 1


def test_downsampled_lexicase_looks_at_the_first_share_of_the_order():
    table = np.ones((3, 100))
    table[1, 0] = 0
    table[2, 99] = 0
    for share, expected in ((0.01, 1), (1e-9, 1), (1.0, 1)):
        select = bind("downsampled-lexicase", share=share, on_all_fail="survive")
        assert select(np.arange(100), TableErrors(table), np.random.default_rng(0)).index == expected
    choice = bind("downsampled-lexicase", share=0.29)(
        np.arange(100), TableErrors(np.zeros((3, 100))), np.random.default_rng(0)
    )
    assert choice.cases_used == 29  # 0.29 * 100 is a little less than 29 in floating point


def test_farthest_first_takes_every_kind_of_case_before_any_twice():
    rng = np.random.default_rng(0)
    table = np.repeat((rng.random((4, 6)) < 0.5).astype(float), 50, axis=1)
    kinds = len(np.unique(table, axis=1).T)
    for seed in range(30):
        sample = farthest_first(solve_vectors(table), 8, np.random.default_rng(seed))
        assert len(set(sample.tolist())) == 8
        assert len(np.unique(table[:, sample], axis=1).T) == min(8, kinds)


def test_farthest_first_takes_the_greatest_least_distance():
    # Solve vectors of 8 candidates as bytes: after 0 comes 255 (distance 8), then 15 (4 from both).
    solved = np.array([[0], [1], [15], [255]], dtype=np.uint8)
    for seed in range(20):
        sample = farthest_first(solved, 3, np.random.default_rng(seed)).tolist()
        if sample[0] in (0, 3):
            assert sorted(sample[:2]) == [0, 3]
            assert sample[2] == 2


def test_all_cases_are_a_sample_too():
    solved = solve_vectors(np.eye(3))
    assert sorted(farthest_first(solved, 3, np.random.default_rng(0))) == [0, 1, 2]


def run_informed(generations: int, refresh: int, memory=None, start: int = 0):
    """A run of generations whose errors change; the memory goes from one to the next."""
    select = bind("informed-lexicase", share=0.3, refresh=refresh)
    chosen, evaluated = [], []
    for generation in range(start, generations):
        rng = np.random.default_rng([7, generation])
        table = (rng.random((4, 40)) < 0.3).astype(float)
        errors = Counting(table, memory=memory)
        choice = select(rng.permutation(40), errors, rng)
        memory = choice.memory
        chosen.append((choice.index, choice.cases_used, choice.survivors))
        evaluated.append(errors.matrices)
    return chosen, evaluated, memory


@pytest.mark.parametrize("refresh", [1, 3, 100])
def test_informed_lexicase_evaluates_everything_every_so_many_generations(refresh):
    _, evaluated, _ = run_informed(10, refresh)
    assert evaluated == [int(generation % refresh == 0) for generation in range(10)]


def test_informed_lexicase_resumes_exactly_from_its_memory():
    whole, _, _ = run_informed(10, 4)
    for stop in range(1, 10):
        first, _, memory = run_informed(stop, 4)
        saved = {name: np.array(array.tolist(), dtype=array.dtype) for name, array in memory.items()}
        rest, _, _ = run_informed(10, 4, saved, stop)
        assert first + rest == whole


def test_informed_lexicase_remembers_bits_not_distances():
    errors = TableErrors((np.random.default_rng(0).random((8, 50_000)) < 0.1).astype(np.uint8))
    choice = bind("informed-lexicase")(np.arange(50_000), errors, np.random.default_rng(0))
    assert sum(array.nbytes for array in choice.memory.values()) < 60_000


def test_informed_lexicase_with_one_candidate_left_keeps_its_memory():
    _, _, memory = run_informed(2, 5)
    errors = Counting(np.zeros((4, 40)), candidates=[2], memory=memory)
    choice = bind("informed-lexicase", refresh=5)(np.arange(40), errors, np.random.default_rng(0))
    assert (choice.index, choice.reason, errors.matrices) == (2, "only_candidate", 0)
    assert choice.memory["age"].tolist() == [3]
    np.testing.assert_array_equal(choice.memory["solved"], memory["solved"])


def test_dalex_tells_apart_what_differs_only_far_below_the_heaviest_case():
    # Nobody in the pool of the first case is the population's best on the second; the third decides.
    table = np.array([[0, 1, 1], [0, 1, 0], [1, 0, 0.0]])
    for scores in ([0.0, -50, -100], [0.0, -1e3, -1e5], [5e3, 0.0, -5e3]):
        assert lightest(table, np.array(scores), np.arange(3)).tolist() == [1]


def test_dalex_at_a_large_sigma_chooses_as_lexicase_does_on_the_order_of_the_weights():
    rng = np.random.default_rng(0)
    for _ in range(200):
        table = rng.integers(0, 3, (6, 10)).astype(float)
        scores = rng.permutation(10) * 1e4
        choice = lexicase(np.argsort(-scores), TableErrors(table), rng, on_all_fail="survive")
        assert choice.index in lightest(table, scores, np.arange(6))
        if choice.reason == "sole_survivor":
            assert lightest(table, scores, np.arange(6)).tolist() == [choice.index]


def test_dalex_compares_infinite_errors_before_finite_ones():
    table = np.array([[np.inf, 0.0], [1e300, 1e300], [np.inf, 5.0]])
    scores = np.array([0.0, 1.0])
    assert lightest(table, scores, np.arange(3)).tolist() == [1]
    assert lightest(table, scores, np.array([0, 2])).tolist() == [0]
