"""What is chosen, how often: 20,000 selections of each method, in training and alone, against exact chances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gradlex.selection import TableErrors, bind, select_parents, selection_probabilities

DRAWS = 20_000
SLOW_DRAWS = DRAWS // 4  # where each takes a call
rng = np.random.default_rng(2024)
BINARY = np.array(
    [[0, 1, 1, 0, 1], [1, 0, 1, 0, 1], [0, 0, 1, 1, 1], [1, 1, 0, 1, 1], [0, 1, 1, 0, 1]], dtype=float
)
GRADED = np.array(
    [[0, 2, 2, 1, 3], [1, 0, 2, 1, 1], [0, 0, 3, 2, 2], [3, 3, 0, 2, 2], [2, 1, 1, 0, 9]], dtype=float
)
CONTINUOUS = rng.random((6, 5))


def in_training(
    method: str, table: np.ndarray, draws: int = SLOW_DRAWS, seed: int = 5, **options
) -> list[int]:
    """One selection a generation, each with a fresh order and nothing remembered."""
    stream = np.random.default_rng(seed)
    select, errors = bind(method, **options), TableErrors(table)
    return [select(stream.permutation(table.shape[1]), errors, stream).index for _ in range(draws)]


@pytest.mark.parametrize("rule", ["random", "survive"])
def test_lexicase_follows_its_probabilities(rule, naive):
    exact = selection_probabilities(BINARY, on_all_fail=rule)
    np.testing.assert_allclose(exact, naive.enumerate_orders(BINARY, naive.lexicase_rule(rule)))
    naive.agree(in_training("lexicase", BINARY, on_all_fail=rule), exact)
    naive.agree(select_parents(BINARY, DRAWS, rng=1, on_all_fail=rule), exact)


@pytest.mark.parametrize("table", [GRADED, CONTINUOUS], ids=["graded", "continuous"])
def test_lexicase_on_graded_errors_follows_its_probabilities(table, naive):
    exact = selection_probabilities(table)
    naive.agree(in_training("lexicase", table, on_all_fail="survive"), exact)
    naive.agree(select_parents(table, DRAWS, rng=2), exact)


@pytest.mark.parametrize("epsilon", [None, 1.0])
@pytest.mark.parametrize("mode", ["static", "semi-dynamic", "dynamic"])
def test_epsilon_lexicase_follows_the_enumeration_of_orders(mode, epsilon, naive):
    exact = naive.enumerate_orders(GRADED, naive.epsilon_rule(mode, epsilon))
    options = {"epsilon": epsilon, "epsilon_mode": mode}
    naive.agree(in_training("epsilon-lexicase", GRADED, **options), exact)
    naive.agree(select_parents(GRADED, SLOW_DRAWS, "epsilon-lexicase", rng=3, **options), exact)


@pytest.mark.parametrize("case_batch", [2, 3])
def test_batch_lexicase_follows_the_enumeration_of_orders(case_batch, naive):
    exact = naive.enumerate_orders(GRADED, naive.batch_rule, case_batch)
    naive.agree(in_training("batch-lexicase", GRADED, case_batch=case_batch), exact)
    naive.agree(select_parents(GRADED, SLOW_DRAWS, "batch-lexicase", rng=4, case_batch=case_batch), exact)


@pytest.mark.parametrize("rule", ["random", "survive"])
def test_downsampled_lexicase_follows_its_probabilities(rule, naive):
    options = {"share": 0.4, "on_all_fail": rule}
    exact = selection_probabilities(BINARY, method="downsampled-lexicase", **options)
    naive.agree(in_training("downsampled-lexicase", BINARY, **options), exact)
    stream = np.random.default_rng(5)  # a call is a generation: its parents share the sample, so one a call
    calls = (select_parents(BINARY, 1, "downsampled-lexicase", rng=stream, **options) for _ in range(2000))
    naive.agree((int(parents[0]) for parents in calls), exact)


def informed_chances(table: np.ndarray, size: int, rule: str) -> np.ndarray:
    """Every farthest-first sample with its probability, and lexicase's exact chances on it."""
    distance = ((table == 0)[:, :, None] != (table == 0)[:, None, :]).sum(axis=0)
    cases = range(table.shape[1])

    def go_on(sample: tuple[int, ...]) -> np.ndarray:
        if len(sample) == size:
            return selection_probabilities(table[:, list(sample)], on_all_fail=rule)
        rest = [case for case in cases if case not in sample]
        least = {case: min((distance[case, taken] for taken in sample), default=0) for case in rest}
        farthest = [case for case in rest if least[case] == max(least.values())]
        return sum(go_on((*sample, case)) for case in farthest) / len(farthest)

    return go_on(())


@pytest.mark.parametrize(
    ("share", "rule", "draws"), [(0.4, "survive", 2000), (0.6, "random", SLOW_DRAWS), (0.8, "survive", 2000)]
)
def test_informed_lexicase_follows_the_enumeration_of_traversals(share, rule, draws, naive):
    table = BINARY[:, [0, 0, 1, 2, 4]]  # a repeated case, so that vectors are taken twice
    exact = informed_chances(table, round(share * 5), rule)
    options = {"share": share, "on_all_fail": rule}
    naive.agree(in_training("informed-lexicase", table, draws, **options), exact)
    stream = np.random.default_rng(6)
    calls = (select_parents(table, 1, "informed-lexicase", rng=stream, **options) for _ in range(1500))
    naive.agree((int(parents[0]) for parents in calls), exact)


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_dalex_follows_the_closed_form_of_two_cases(sigma, naive):
    # The weight of case 0 is the logistic of d ~ N(0, 2 sigma^2); candidate 2 wins where it is in (0.4, 0.6).
    table = np.array([[0.0, 1.0], [1.0, 0.0], [0.4, 0.4]])
    share = 2 * stats.norm.cdf(np.log(0.6 / 0.4) / (sigma * np.sqrt(2))) - 1
    exact = np.array([(1 - share) / 2, (1 - share) / 2, share])
    naive.agree(in_training("dalex", table, sigma=sigma), exact)
    naive.agree(select_parents(table, DRAWS, "dalex", rng=7, sigma=sigma), exact)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_plexicase_follows_its_probabilities(alpha, naive):
    exact = selection_probabilities(GRADED, method="plexicase", alpha=alpha)
    naive.agree(in_training("plexicase", GRADED, SLOW_DRAWS if alpha == 1 else 2000, alpha=alpha), exact)
    naive.agree(select_parents(GRADED, DRAWS, "plexicase", rng=8, alpha=alpha), exact)


@pytest.mark.parametrize("size", [1, 3, None])
def test_tournament_follows_its_probabilities(size, naive):
    exact = selection_probabilities(GRADED, method="tournament", tournament_size=size)
    naive.agree(in_training("tournament", GRADED, tournament_size=size), exact)
    naive.agree(select_parents(GRADED, DRAWS, "tournament", rng=9, tournament_size=size), exact)


def test_random_is_uniform(naive):
    naive.agree(in_training("random", GRADED), np.full(5, 0.2))
    naive.agree(select_parents(GRADED, DRAWS, "random", rng=10), np.full(5, 0.2))


@pytest.mark.parametrize("table", [BINARY, GRADED, CONTINUOUS], ids=["binary", "graded", "continuous"])
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("batch-lexicase", {"case_batch": 1}),
        ("epsilon-lexicase", {"epsilon": 0.0, "epsilon_mode": "semi-dynamic"}),
        ("epsilon-lexicase", {"epsilon": 0.0, "epsilon_mode": "dynamic"}),
        ("downsampled-lexicase", {"share": 1.0}),
        ("informed-lexicase", {"share": 1.0}),
        ("dalex", {"sigma": 1e6}),
    ],
)
def test_at_its_limit_the_method_is_lexicase_under_the_classic_rule(method, options, table, naive):
    exact = selection_probabilities(table, on_all_fail="survive")
    naive.agree(select_parents(table, SLOW_DRAWS, method, rng=11, **options), exact)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("batch-lexicase", {"case_batch": 1}),
        ("epsilon-lexicase", {"epsilon": 0.0}),
        ("downsampled-lexicase", {"share": 1.0, "on_all_fail": "survive"}),
    ],
)
def test_at_its_limit_the_method_chooses_as_lexicase_does_order_by_order(method, options):
    for table in (BINARY, GRADED, CONTINUOUS):
        same = in_training(method, table, 500, **options)
        assert same == in_training("lexicase", table, 500, on_all_fail="survive")


def test_static_epsilon_0_is_lexicase_on_0_1_errors_only(naive):
    # It asks who is best in the population, so that a pool without the best is never split.
    for table, same in ((BINARY, True), (GRADED, False)):
        static = selection_probabilities(table, method="epsilon-lexicase", epsilon=0, epsilon_mode="static")
        assert np.allclose(static, selection_probabilities(table, on_all_fail="survive")) is same
        naive.agree(
            select_parents(table, DRAWS, "epsilon-lexicase", rng=14, epsilon=0, epsilon_mode="static"), static
        )


def test_one_batch_of_all_cases_is_elitism():
    table = np.random.default_rng(0).random((7, 30))
    assert set(select_parents(table, 50, "batch-lexicase", rng=0, case_batch=30)) == {
        table.mean(axis=1).argmin()
    }


def test_dalex_approaches_lexicase_as_sigma_grows():
    table = np.random.default_rng(3).integers(0, 3, (6, 8)).astype(float)
    exact = selection_probabilities(table, on_all_fail="survive")
    distances = []
    for sigma in (0.3, 3.0, 300.0):
        found = np.bincount(select_parents(table, 5000, "dalex", rng=12, sigma=sigma), minlength=6) / 5000
        distances.append(np.abs(found - exact).sum())
    assert distances[0] > distances[1] > distances[2]


def test_dalex_at_sigma_200_and_50_000_cases_neither_ties_nor_favours_the_first(naive):
    table = (np.random.default_rng(4).random((4, 50_000)) < 0.01).astype(np.float32)
    exact = selection_probabilities(table, on_all_fail="survive")
    chosen, tied = [], 0
    stream = np.random.default_rng(13)
    select, errors = bind("dalex", sigma=200.0), TableErrors(table)
    for _ in range(200):
        choice = select(np.arange(50_000), errors, stream)
        chosen.append(choice.index)
        tied += len(choice.survivors[0][1]) > 1
    assert tied == 0
    naive.agree(chosen, exact)
