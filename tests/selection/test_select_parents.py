from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from gradlex.errors import InputError
from gradlex.selection import (
    _best_bits,
    _lexicase_parents,
    _parent_pools,
    select_parents,
    selection_probabilities,
)


def slow_parents(table: np.ndarray, k: int, seed: int, ends: bool = False) -> np.ndarray:
    """Lexicase as it is defined, a parent and a case at a time."""
    rng = np.random.default_rng(seed)
    chosen = []
    for _ in range(k):
        pool = np.arange(len(table))
        for case in rng.permutation(table.shape[1]):
            errors = table[pool, case]
            if ends and errors.min() > 0:
                break
            pool = pool[errors == errors.min()]
        chosen.append(rng.choice(pool))
    return np.array(chosen)


TABLES = {
    "half fail": lambda rng: (rng.random((9, 12)) < 0.5).astype(float),
    "few fail": lambda rng: (rng.random((9, 60)) < 0.03).astype(float),
    "most fail": lambda rng: (rng.random((9, 12)) < 0.9).astype(float),
    "booleans": lambda rng: rng.random((9, 12)) < 0.5,
    "small integers": lambda rng: rng.integers(0, 3, (9, 7)).astype(np.int8),
    "continuous": lambda rng: rng.random((9, 7)).astype(np.float32),
    "repeated rows": lambda rng: np.repeat((rng.random((4, 30)) < 0.1).astype(float), 3, axis=0),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("seed", range(4))
def test_parents_follow_the_exact_probabilities(name, seed, naive):
    table = TABLES[name](np.random.default_rng(seed))
    exact = selection_probabilities(table, on_all_fail="survive")
    naive.agree(select_parents(table, 20_000, rng=seed), exact, level=1e-4)


@pytest.mark.parametrize("name", ["half fail", "few fail", "most fail", "booleans", "repeated rows"])
def test_parents_follow_the_exact_probabilities_under_the_papers_rule(name, naive):
    table = TABLES[name](np.random.default_rng(9))
    exact = selection_probabilities(table, on_all_fail="random")
    naive.agree(select_parents(table, 20_000, rng=9, on_all_fail="random"), exact)


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("draws", [0, 1, 16, 256])
def test_every_stage_alone_is_exact(draws, on_all_fail, monkeypatch, naive):
    # Without draws with replacement every parent goes through a whole permutation; with one, some do.
    monkeypatch.setattr(_lexicase_parents, "_LEAST_DRAWS", draws)
    monkeypatch.setattr(_lexicase_parents, "_MOST_DRAWS", draws)
    rng = np.random.default_rng(5)
    few = (rng.random((7, 40)) < 0.1).astype(float)
    many = np.vstack([few, np.ones((70, 40))])  # more than a word: whole permutations, not kinds of case
    for table in (few, many):
        exact = selection_probabilities(table, on_all_fail=on_all_fail)
        naive.agree(select_parents(table, 20_000, rng=7, on_all_fail=on_all_fail), exact)
    if on_all_fail == "survive":
        graded = np.vstack([rng.integers(0, 4, (7, 12)), np.full((70, 12), 9)]).astype(float)
        naive.agree(select_parents(graded, 20_000, rng=6), selection_probabilities(graded))


@pytest.mark.parametrize("population", [63, 64, 65, 130])
def test_parents_of_a_larger_population_are_those_of_the_definition(population, naive):
    rng = np.random.default_rng(population)
    for table in (
        (rng.random((population, 15)) < 0.4).astype(float),
        rng.integers(0, 3, (population, 6)).astype(float),
    ):
        fast = np.bincount(select_parents(table, 6000, rng=1), minlength=population)
        slow = np.bincount(slow_parents(table, 6000, 2), minlength=population)
        both = fast + slow
        often = both >= 20
        # Two samples of the same size: each count is half of the two together, or nearly so.
        z = (fast - slow)[often] / np.sqrt(both[often])
        assert (z**2).sum() < often.sum() + 5 * np.sqrt(2 * often.sum())
        assert not (fast[slow == 0] > 15).any()


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
@pytest.mark.parametrize("depth", [1, 3, 25, 1000])
@pytest.mark.parametrize("draws", [1, 256])
def test_parents_after_a_depth_follow_the_exact_probabilities(draws, depth, on_all_fail, monkeypatch, naive):
    # With one draw with replacement the rest of the order is drawn without; with many, repeats are not counted.
    monkeypatch.setattr(_lexicase_parents, "_LEAST_DRAWS", draws)
    monkeypatch.setattr(_lexicase_parents, "_MOST_DRAWS", draws)
    table = (np.random.default_rng(5).random((7, 40)) < 0.1).astype(float)
    exact = selection_probabilities(table, on_all_fail=on_all_fail, depth=depth)
    naive.agree(select_parents(table, 10_000, rng=8, on_all_fail=on_all_fail, depth=depth), exact)


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
def test_clones_are_chosen_alike_without_going_through_all_cases(on_all_fail, monkeypatch, naive):
    rng = np.random.default_rng(3)
    distinct = (rng.random((10, 60)) < 0.2).astype(float)
    if on_all_fail == "survive":
        distinct *= rng.integers(1, 4, distinct.shape)
    clones = rng.permutation(np.repeat(np.arange(10), 12))
    exact = selection_probabilities(distinct, on_all_fail=on_all_fail)[clones] / 12
    whole, orders = [], _lexicase_parents._Draws.orders
    monkeypatch.setattr(
        _lexicase_parents._Draws, "orders", lambda *given: whole.append(given[1]) or orders(*given)
    )
    naive.agree(select_parents(distinct[clones], 20_000, rng=8, on_all_fail=on_all_fail), exact)
    assert sum(whole) < 2_000  # no pool ever has one member, so all parents would


def test_parents_come_from_independent_orders():
    # Two candidates, two cases: neighbours in the answer agree half of the time.
    parents = select_parents(np.eye(2), 40_000, rng=0)
    assert abs((parents[1:] == parents[:-1]).mean() - 0.5) < 0.02


def test_blocks_of_parents_do_not_change_the_distribution(monkeypatch, naive):
    monkeypatch.setattr(_lexicase_parents, "_BLOCK", 1)
    table = (np.random.default_rng(1).random((6, 9)) < 0.5).astype(float)
    naive.agree(select_parents(table, 5000, rng=3), selection_probabilities(table, on_all_fail="survive"))


LARGER = {
    "half fail": lambda rng: (rng.random((150, 90)) < 0.5).astype(float),
    "few fail": lambda rng: (rng.random((150, 90)) < 0.02).astype(np.uint8),
    "most fail": lambda rng: (rng.random((150, 90)) < 0.97).astype(float),
    "continuous": lambda rng: rng.random((150, 90)),
    "continuous, columns first": lambda rng: np.asfortranarray(rng.random((150, 90))),
    "rounded, some the same for all": lambda rng: np.where(
        np.arange(90) % 4, rng.random((150, 90)).round(2), 1
    ),
    "not numbers": lambda rng: np.where(rng.random((150, 90)) < 0.1, np.nan, rng.random((150, 90)).round(1)),
    "repeated rows": lambda rng: rng.random((30, 90)).round(2)[rng.integers(30, size=150)],
}


@pytest.mark.parametrize("options", [{}, {"depth": 3}], ids=["whole", "depth"])
@pytest.mark.parametrize("name", LARGER)
def test_parents_do_not_depend_on_how_pools_are_held(name, options, monkeypatch):
    table = LARGER[name](np.random.default_rng(3))
    parents = select_parents(table, 300, rng=0, **options)
    for short, few in ((0, 0), (0, 1000), (1000, 0), (1000, 1000)):  # bits alone, lists first, lists soon
        monkeypatch.setattr(_parent_pools, "_SHORT", short)
        monkeypatch.setattr(_best_bits, "_FEW", few)
        np.testing.assert_array_equal(select_parents(table, 300, rng=0, **options), parents)


def test_parents_do_not_depend_on_the_parts_a_table_is_read_in(monkeypatch):
    for name, make in LARGER.items():
        table = make(np.random.default_rng(4))
        parents = select_parents(table, 300, rng=0)
        with monkeypatch.context() as changed:
            changed.setattr(_best_bits, "_PART", 1)
            np.testing.assert_array_equal(select_parents(table, 300, rng=0), parents, err_msg=name)


@pytest.mark.parametrize("short", [0, 1000])
def test_all_who_fail_are_alike_under_the_papers_rule(short, monkeypatch, naive):
    monkeypatch.setattr(_parent_pools, "_SHORT", short)
    table = np.array([[0, 1, 1], [0, np.inf, 1], [1, 1, 0], [0, 1, np.inf]])
    exact = selection_probabilities(table, on_all_fail="random")
    naive.agree(select_parents(table, 20_000, rng=1, on_all_fail="random"), exact)


def test_a_large_sample_of_cases_and_few_candidates_is_quick_and_exact(naive):
    table = (np.random.default_rng(2).random((8, 50_000)) < 0.0005).astype(np.uint8)
    exact = selection_probabilities(table, on_all_fail="survive")
    naive.agree(select_parents(table, 5000, rng=4), exact)


def test_nan_and_infinity_count_as_worst():
    table = np.array([[np.nan, np.nan], [1.0, 1.0], [np.inf, 5.0], [-np.inf, 5.0]])
    for method in ("lexicase", "batch-lexicase", "dalex", "plexicase", "tournament", "downsampled-lexicase"):
        assert set(select_parents(table, 20, method, rng=0)) == {1}
    assert np.isnan(table[0, 0])  # the caller's table is left as it was


def test_an_infinite_error_is_never_within_epsilon_of_a_finite_one():
    table = np.array([[0.0, np.inf], [np.inf, np.inf]])
    for mode in ("static", "semi-dynamic", "dynamic"):
        assert set(select_parents(table, 20, "epsilon-lexicase", rng=0, epsilon_mode=mode)) == {0}


def test_a_seed_a_generator_or_nothing_is_a_source_of_randomness():
    table = np.eye(5)
    same = select_parents(table, 50, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(select_parents(table, 50, rng=3), same)
    assert len(set(select_parents(table, 200))) == 5
    for bad in ("3", -1, 1.5, True):
        with pytest.raises(InputError, match="rng is"):
            select_parents(table, 5, rng=bad)


@pytest.mark.parametrize("k", [0, -1, 2.0, "3", True])
def test_a_bad_number_of_parents_is_refused(k):
    with pytest.raises(InputError, match="whole number of parents"):
        select_parents(np.eye(3), k)


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(InputError, match="Did you mean 'lexicase'"):
        select_parents(np.eye(3), 3, "lexicas")
    with pytest.raises(InputError, match="one candidate"):
        select_parents(np.eye(3), 3, "sgd")
    with pytest.raises(InputError, match="got 4 for a table of 3"):
        select_parents(np.eye(3), 3, "tournament", tournament_size=4)
    with pytest.raises(InputError, match="a table of 0"):
        select_parents(np.eye(3) * 2, 3, on_all_fail="random")


def test_the_sample_belongs_to_the_call_as_to_a_generation():
    table = np.eye(30)
    for method in ("downsampled-lexicase", "informed-lexicase"):
        # On a sample of one case, everyone but one candidate solves it.
        parents = select_parents(1 - table, 200, method, rng=0, share=0.01)
        assert len(set(parents)) == 1


def test_selection_on_a_table_needs_no_torch():
    code = (
        "import sys, numpy as np, gradlex.selection as s; s.select_parents(np.eye(3), 5, rng=0); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
