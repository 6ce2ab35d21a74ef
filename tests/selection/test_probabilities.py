from __future__ import annotations

import itertools

import numpy as np
import pytest

from gradlex.errors import InputError
from gradlex.selection import _pools, selection_chances, selection_probabilities


def tables(seed: int, how_many: int, levels: int | None = 2, cases: int = 5):
    """Small tables whose orders can all be gone through; `levels` None is continuous."""
    rng = np.random.default_rng(seed)
    for _ in range(how_many):
        shape = (int(rng.integers(1, 6)), int(rng.integers(1, cases + 1)))
        table = rng.random(shape) if levels is None else rng.integers(0, levels, shape).astype(float)
        if rng.random() < 0.3:
            table[0] = table[-1]
        yield table


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
def test_lexicase_on_0_1_errors_equals_the_enumeration_of_orders(on_all_fail, naive):
    for table in tables(0, 60):
        exact = naive.enumerate_orders(table, naive.lexicase_rule(on_all_fail))
        np.testing.assert_allclose(selection_probabilities(table, on_all_fail=on_all_fail), exact, atol=1e-12)


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
def test_all_subsets_and_the_pools_that_are_found_give_the_same_chances(on_all_fail, monkeypatch):
    rng = np.random.default_rng(7)
    tables = [(rng.random((6, 30)) < rate).astype(float) for rate in (0.05, 0.3, 0.8)]
    for depth in (None, 2, 9):
        options = {"on_all_fail": on_all_fail, "depth": depth}
        subsets = [selection_probabilities(table, **options) for table in tables]
        with monkeypatch.context() as patch:
            patch.setattr(_pools, "_MOST_FOR_ALL_SUBSETS", 0)
            found = [selection_probabilities(table, **options) for table in tables]
        np.testing.assert_allclose(subsets, found, atol=1e-14)


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("depth", [1, 2, 4, 10])
def test_lexicase_after_a_depth_equals_the_enumeration_of_orders(depth, on_all_fail, naive):
    for table in tables(5, 30):
        exact = naive.enumerate_orders(table, naive.lexicase_rule(on_all_fail), depth=depth)
        found = selection_probabilities(table, on_all_fail=on_all_fail, depth=depth)
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("depth", [None, 3])
def test_many_candidates_with_few_behaviours_have_exact_chances(on_all_fail, depth):
    # 600 candidates of 6 behaviours: those of a behaviour share what it would have with as many copies of each.
    few = (np.random.default_rng(4).random((6, 40)) < 0.3).astype(float)
    owner = np.random.default_rng(5).integers(0, 6, 600)
    found = selection_chances(few[owner], on_all_fail=on_all_fail, depth=depth)
    assert found.exact
    assert found.values.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.values, found.values[[int((owner == own).argmax()) for own in owner]])
    if (
        depth is None and on_all_fail == "survive"
    ):  # no pool ends with two behaviours: how many share one says nothing
        alone = selection_probabilities(few, on_all_fail=on_all_fail)
        np.testing.assert_allclose(np.bincount(owner, found.values), alone, atol=1e-12)
    twins = np.array(
        [[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]]
    )  # the first case tells, the second ends selection under "random"
    at_once = selection_probabilities(twins, on_all_fail="random")
    np.testing.assert_allclose(at_once, [0.5 * 0.5 + 0.5 / 3, 0.5 * 0.5 + 0.5 / 3, 0.5 / 3])


@pytest.mark.parametrize("levels", [3, 6, None])
def test_lexicase_on_graded_errors_equals_the_enumeration_of_orders(levels, naive):
    for table in tables(1, 40, levels):
        exact = naive.enumerate_orders(table, naive.lexicase_rule())
        found = selection_probabilities(table, method="lexicase", on_all_fail="survive")
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize(
    ("mode", "epsilon"),
    [("static", None), ("semi-dynamic", None), ("static", 1.0), ("semi-dynamic", 1.0), ("dynamic", 1.0)],
)
@pytest.mark.parametrize("levels", [4, 10, None])
def test_epsilon_lexicase_equals_the_enumeration_of_orders(mode, epsilon, levels, naive):
    for table in tables(2, 40, levels):
        within = epsilon if levels or epsilon is None else 0.2
        exact = naive.enumerate_orders(table, naive.epsilon_rule(mode, within))
        found = selection_probabilities(table, method="epsilon-lexicase", epsilon=within, epsilon_mode=mode)
        np.testing.assert_allclose(found, exact, atol=1e-12)


def test_dynamic_epsilon_can_split_a_pool_again_on_a_case_that_was_used(naive):
    # Which is why it has no exact form here: the cases still to come are not all those that would split.
    table = np.array([[0.0], [1.0], [2.0], [4.0], [100.0]])
    keep = naive.epsilon_rule("dynamic")
    once = keep(table, [0, 1, 2, 3, 4], [0])
    assert once == [0, 1, 2]
    assert keep(table, once, [0]) == [0, 1]


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("share", [0.01, 0.4, 0.6, 1.0])
def test_downsampled_lexicase_equals_the_enumeration_of_samples_and_orders(share, on_all_fail, naive):
    for table in tables(3, 25):
        depth = max(1, round(share * table.shape[1]))
        exact = naive.enumerate_orders(table, naive.lexicase_rule(on_all_fail), depth=depth)
        found = selection_probabilities(
            table, method="downsampled-lexicase", share=share, on_all_fail=on_all_fail
        )
        np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 5, None])
def test_tournament_equals_the_enumeration_of_entrants(size):
    rng = np.random.default_rng(4)
    for _ in range(20):
        table = rng.integers(0, 3, (5, 3)).astype(float)
        means = table.mean(axis=1)
        exact = np.zeros(5)
        draws = list(itertools.combinations(range(5), size or 5))
        for entrants in draws:
            best = [i for i in entrants if means[i] == min(means[list(entrants)])]
            exact[best] += 1 / len(best) / len(draws)
        found = selection_probabilities(table, method="tournament", tournament_size=size)
        np.testing.assert_allclose(found, exact, atol=1e-12)


def test_plexicase_equals_a_table_worked_out_by_hand():
    # 0 is best on cases 0, 1; 1 on cases 1, 2; 2 on case 3; 3 is dominated by 0; 4 is best nowhere.
    table = np.array([[0, 0, 5, 5], [5, 0, 0, 5], [5, 5, 5, 0], [1, 0, 5, 5], [2, 2, 2, 2]], dtype=float)
    expected = np.array([1 + 1 / 2, 1 / 2 + 1, 1, 0, 0]) / 4
    np.testing.assert_allclose(selection_probabilities(table, method="plexicase"), expected)
    squared = expected**2 / (expected**2).sum()
    np.testing.assert_allclose(selection_probabilities(table, method="plexicase", alpha=2), squared)
    uniform = [1 / 3, 1 / 3, 1 / 3, 0, 0]
    np.testing.assert_allclose(selection_probabilities(table, method="plexicase", alpha=0), uniform)


def test_plexicase_shares_a_case_in_proportion_to_the_cases_on_which_each_is_best():
    # 0 is best on cases 0, 1, 2 and 1 on cases 2, 3: case 2 is shared 3 to 2.
    table = np.array([[0, 0, 0, 1], [1, 1, 0, 0.0]])
    np.testing.assert_allclose(
        selection_probabilities(table, method="plexicase"), [(2 + 3 / 5) / 4, (1 + 2 / 5) / 4]
    )


def test_plexicase_keeps_a_large_alpha_finite():
    table = np.random.default_rng(0).random((30, 40))
    chances = selection_probabilities(table, method="plexicase", alpha=2000)
    assert np.isfinite(chances).all()
    assert chances.sum() == pytest.approx(1)


def test_random_is_uniform():
    assert selection_probabilities(np.eye(4), method="random").tolist() == [0.25] * 4


def test_a_networks_population_on_50_000_cases_is_no_trouble():
    rng = np.random.default_rng(0)
    table = (rng.random((8, 50_000)) < 0.05).astype(np.float32)
    for rule in ("random", "survive"):
        assert selection_probabilities(table, on_all_fail=rule).sum() == pytest.approx(1)
    assert selection_probabilities(rng.random((8, 50_000))).sum() == pytest.approx(1)


def test_a_large_population_with_continuous_errors_is_no_trouble():
    table = np.random.default_rng(0).random((1500, 100))
    winners = np.bincount(table.argmin(axis=0), minlength=1500) / 100
    np.testing.assert_allclose(selection_probabilities(table), winners)


def test_long_chains_of_pools_are_no_trouble():
    table = np.tril(np.ones((400, 400)), -1)[:, :399]  # each case drops some more candidates
    assert selection_probabilities(table, on_all_fail="survive")[0] == pytest.approx(1)


def random_table(candidates: int, cases: int, seed: int = 0) -> np.ndarray:
    """The worst case: every candidate fails half of the cases at random."""
    return (np.random.default_rng(seed).random((candidates, cases)) < 0.5).astype(np.float32)


def watched(monkeypatch, name: str) -> list:
    """What the function of this name returns from now on, call by call."""
    returned, inner = [], getattr(_pools, name)

    def function(*args):
        returned.append(inner(*args))
        return returned[-1]

    monkeypatch.setattr(_pools, name, function)
    return returned


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
def test_the_exact_chances_of_12_candidates_on_random_cases_take_one_step_for_each_pair_of_pools(
    on_all_fail, monkeypatch
):
    listed = watched(monkeypatch, "_steps_between_subsets")
    found = watched(monkeypatch, "_steps_found")
    chances = selection_chances(random_table(12, 5000), on_all_fail=on_all_fail)
    assert not found  # no pool was looked at on its own
    assert len(listed) == 1
    assert len(listed[0].source) <= 3**12
    assert chances.exact
    assert not chances.standard_error.any()
    assert chances.values.sum() == pytest.approx(1)


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("candidates", [16, 32])
def test_the_chances_of_more_candidates_on_random_cases_are_estimated_after_bounded_work(
    candidates, on_all_fail, monkeypatch
):
    pools = watched(monkeypatch, "_successors")
    table = random_table(candidates, 5000)
    chances = selection_chances(table, on_all_fail=on_all_fail)
    assert sum(successors.size for successors, _ in pools) <= 2 * _pools._MOST_WORK
    assert len(pools) < 100  # the work was seen to be too much before it was done
    assert not chances.exact
    assert chances.values.sum() == pytest.approx(1)
    assert ((chances.standard_error > 0) & (chances.standard_error <= 0.0025)).all()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("lexicase", {"on_all_fail": "random"}),
        ("lexicase", {"on_all_fail": "survive"}),
        ("lexicase", {"depth": 3}),
        ("downsampled-lexicase", {"share": 0.05, "on_all_fail": "survive"}),
        ("epsilon-lexicase", {"epsilon": 0.5}),
    ],
)
def test_an_estimate_lies_within_its_standard_error_of_the_exact_answer(method, options, monkeypatch):
    table = random_table(9, 100, seed=3)
    table[:4] += np.where(table[:4] == 0, 0, 2) * (method == "epsilon-lexicase")
    exact = selection_chances(table, method=method, exact=True, **options)
    monkeypatch.setattr(_pools, "_MOST_FOR_ALL_SUBSETS", 0)
    monkeypatch.setattr(_pools, "_MOST_WORK", 1)
    estimated = selection_chances(table, method=method, **options)
    assert (exact.exact, estimated.exact) == (True, False)
    errors = np.abs(estimated.values - exact.values) / estimated.standard_error
    assert errors.max() < 4
    assert np.sqrt((errors**2).mean()) < 1.5


def test_an_estimate_is_the_same_every_time_and_uses_nobodys_randomness():
    table = random_table(16, 1000)
    np.random.seed(0)  # the global generator must have no part in it
    first = selection_probabilities(table)
    np.random.seed(1)
    np.testing.assert_array_equal(selection_probabilities(table), first)


def test_the_chances_of_someone_never_drawn_are_not_said_to_be_known():
    table = random_table(16, 1000)
    table[3] = 1
    chances = selection_chances(table, on_all_fail="survive")
    assert not chances.exact
    assert chances.values[3] == 0
    assert chances.standard_error[3] > 0


def test_exact_chances_that_would_take_too_long_are_refused_with_the_cure():
    with pytest.raises(
        InputError, match=r"on 16 candidates and 5000 cases would take too long\. Leave exact at 'auto'"
    ):
        selection_probabilities(random_table(16, 5000), exact=True)
    with pytest.raises(InputError, match="exact must be 'auto' or True, got False"):
        selection_probabilities(np.eye(3), exact=False)


def test_a_depth_that_would_take_too_long_is_estimated():
    table = (np.random.default_rng(0).random((12, 50_000)) < 0.02).astype(np.float32)
    assert selection_chances(table).exact
    chances = selection_chances(table, method="downsampled-lexicase")
    assert not chances.exact
    everything = selection_chances(table)  # a sample of 5,000 decides as all of them do
    assert (np.abs(chances.values - everything.values) < 4 * chances.standard_error).all()


def test_graded_errors_take_the_classic_rule_unless_the_other_is_asked_for():
    table = np.array([[0.0, 2.0], [1.0, 0.5]])
    assert selection_probabilities(table).tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="'survive'"):
        selection_probabilities(table, on_all_fail="random")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("batch-lexicase", {}),
        ("informed-lexicase", {}),
        ("dalex", {}),
        ("sgd", {}),
        ("epsilon-lexicase", {"epsilon_mode": "dynamic"}),
    ],
)
def test_methods_without_an_exact_form_say_so_and_name_those_that_have_one(method, options):
    with pytest.raises(InputError, match=r"no exact or closed form.*lexicase, .*tournament, random"):
        selection_probabilities(np.eye(3), method=method, **options)


@pytest.mark.parametrize("bad", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), [["a"]], [[1j]]])
def test_what_is_no_table_is_refused(bad):
    with pytest.raises(InputError, match="error table"):
        selection_probabilities(bad)
