"""Many parents from one table: how often each is chosen, whatever the table is like."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from gradlex import InputError
from gradlex.selection import (
    SELECTIONS,
    Lexicase,
    TableErrors,
    make_selection,
    select_parents,
    selection_chances,
    selection_probabilities,
)

rng = np.random.default_rng(2024)
BINARY = np.array([[0, 1, 1, 0, 1], [1, 0, 1, 0, 1], [0, 0, 1, 1, 1], [1, 1, 0, 1, 1], [0, 1, 1, 0, 1]])
GRADED = np.array([[0, 2, 2, 1, 3], [1, 0, 2, 1, 1], [0, 0, 3, 2, 2], [3, 3, 0, 2, 2], [2, 1, 1, 0, 9]])
CONTINUOUS = rng.random((6, 5))


@pytest.mark.parametrize("table", [BINARY, GRADED, CONTINUOUS], ids=["binary", "graded", "continuous"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_parents_of_a_table_and_single_choices_are_chosen_equally_often(name, table, naive):
    """Both are compared with exact chances where there are any, otherwise with both together."""
    if name in ("sgd", "downsampled-lexicase", "informed-lexicase"):  # their parents share a sample
        return
    select, errors, stream = make_selection(name), TableErrors(table), np.random.default_rng(1)
    if name == "lexicase":
        select = Lexicase(on_all_fail="random" if table is BINARY else "survive")
    orders = [stream.permutation(5) for _ in range(1500)]
    chosen = [select(order, errors, stream).index for order in orders]
    parents = select_parents(table, 1500, name, rng=3)
    try:
        exact = selection_chances(table, name).values
    except InputError:
        exact = np.bincount(np.concatenate([chosen, parents]), minlength=len(table)) / 3000
    naive.agree(chosen, exact)
    naive.agree(parents, exact)


@pytest.mark.parametrize("rule", ["random", "survive", None])
def test_draws_and_chances_have_one_all_fail_rule(rule, naive):
    """Defect 11: by default the last candidate had a chance of a sixteenth and was never drawn."""
    table = [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]
    exact = selection_probabilities(table, on_all_fail=rule)
    assert exact[3] == (0 if rule == "survive" else 0.0625)
    naive.agree(select_parents(table, 20_000, rng=0, on_all_fail=rule), exact)
    errors, rng, strategy = TableErrors(table), np.random.default_rng(0), Lexicase(on_all_fail=rule)
    naive.agree(np.array([strategy(rng.permutation(4), errors, rng).index for _ in range(4_000)]), exact)


def test_graded_errors_take_the_classic_rule_unless_the_other_is_given():
    table = np.array([[0.0, 2.0], [1.0, 0.5]])
    for given in ("lexicase", Lexicase()):
        assert selection_probabilities(table, given).tolist() == [0.5, 0.5]
    for enter in (selection_probabilities, lambda *given: select_parents(given[0], 3, given[1])):
        with pytest.raises(InputError, match="these are graded: leave on_all_fail out"):
            enter(table, "lexicase(on_all_fail=random)")


def with_bad_ones(table: np.ndarray, population: int) -> np.ndarray:
    """The table among candidates that are worse than all of its own everywhere."""
    return np.vstack([table, np.full((population, table.shape[1]), 9)])


TABLES = {
    "half fail": lambda rng: (rng.random((9, 12)) < 0.5).astype(float),
    "few fail": lambda rng: (rng.random((9, 60)) < 0.03).astype(float),
    "most fail": lambda rng: (rng.random((9, 12)) < 0.9).astype(float),
    "booleans": lambda rng: rng.random((9, 12)) < 0.5,
    "small integers": lambda rng: rng.integers(0, 3, (9, 7)).astype(np.int8),
    "bytes": lambda rng: rng.integers(0, 3, (9, 7)).astype(np.uint8) + 253,
    "continuous": lambda rng: rng.random((9, 7)).astype(np.float32),
    "columns first": lambda rng: np.asfortranarray(rng.random((9, 7)).round(1)),
    "repeated rows": lambda rng: np.repeat((rng.random((4, 30)) < 0.1).astype(float), 3, axis=0),
    "not finite": lambda rng: np.where(
        rng.random((9, 7)) < 0.2, rng.choice([np.nan, np.inf, -np.inf], (9, 7)), rng.integers(0, 3, (9, 7))
    ),
    "among many": lambda rng: with_bad_ones(rng.integers(0, 3, (7, 8)), 100),
    "one in many is best": lambda rng: with_bad_ones(rng.random((5, 7)), 1000),
    "solved by all": lambda rng: np.zeros((3, 4)),
    "one candidate": lambda rng: rng.random((1, 4)),
}


@pytest.mark.parametrize("options", [{}, {"on_all_fail": "survive"}, {"depth": 3}], ids=str)
@pytest.mark.parametrize("name", TABLES)
def test_parents_follow_the_exact_chances(name, options, naive):
    for seed in range(3):
        table = TABLES[name](np.random.default_rng(seed))
        exact = selection_probabilities(table, **options)
        naive.agree(select_parents(table, 5000, rng=seed, **options), exact)


@pytest.mark.parametrize("population", [63, 64, 65, 130])
@pytest.mark.parametrize("levels", [2, 3, 40])
def test_parents_of_a_larger_population_are_chosen_as_often_as_by_the_definition(population, levels, naive):
    rng = np.random.default_rng(population)
    table = rng.integers(0, levels, (population, 8)).astype(float)
    fast = np.bincount(select_parents(table, 2500, rng=1, on_all_fail="survive"), minlength=population)
    slow = np.zeros(population, dtype=int)
    for _ in range(2500):
        slow[rng.choice(naive.walk(table, rng.permutation(8), naive.lexicase_rule())[0])] += 1
    often = fast + slow >= 20
    # Two samples of the same size: each count is half of the two together, or nearly so.
    z = (fast - slow)[often] / np.sqrt((fast + slow)[often])
    assert (z**2).sum() < often.sum() + 5 * np.sqrt(2 * often.sum())
    assert not (fast[slow == 0] > 15).any()


@pytest.mark.parametrize("name", ["epsilon-lexicase", "lexicase(on_all_fail=survive)"])
def test_clones_are_chosen_alike(name, naive):
    rng = np.random.default_rng(3)
    distinct = (rng.random((10, 60)) < 0.2) * rng.integers(1, 4, (10, 60))
    clones = rng.permutation(np.repeat(np.arange(10), 12))
    exact = selection_probabilities(distinct[clones], name)
    assert len(np.unique(exact.round(12))) <= 10
    naive.agree(select_parents(distinct[clones], 10_000, name, rng=8), exact)


def test_parents_come_from_independent_orders():
    # Two candidates, two cases: neighbors in the answer agree half of the time.
    parents = select_parents(np.eye(2), 40_000, rng=0)
    assert abs((parents[1:] == parents[:-1]).mean() - 0.5) < 0.02


def test_a_large_sample_of_cases_and_few_candidates_is_exact(naive):
    table = (np.random.default_rng(2).random((8, 50_000)) < 0.0005).astype(np.uint8)
    exact = selection_probabilities(table, on_all_fail="survive")
    naive.agree(select_parents(table, 2000, rng=4, on_all_fail="survive"), exact)


@pytest.mark.parametrize(
    "name",
    ["lexicase", "batch-lexicase", "dalex", "plexicase", "tournament", "downsampled-lexicase", "epsilon-lexicase"],
)
def test_nan_and_infinity_count_as_worst(name):
    table = np.array([[np.nan, np.nan], [1.0, 1.0], [np.inf, 5.0], [-np.inf, 5.0]])
    assert set(select_parents(table, 20, name, rng=0)) == {1}
    assert np.isnan(table[0, 0])  # the caller's table is left as it was


def test_a_candidate_that_broke_fails_all_cases_of_a_0_1_table(naive):
    table = np.array([[0, 1, 1], [0, np.inf, 1], [1, 1, 0], [0, 1, np.nan]])
    exact = selection_probabilities(table)
    np.testing.assert_allclose(exact, selection_probabilities(np.where(table == 0, 0, 1)))
    naive.agree(select_parents(table, 10_000, rng=1), exact)


@pytest.mark.parametrize("name", ["tournament", "batch-lexicase(batch_size=10)"])
@pytest.mark.parametrize("worst", [np.nan, np.inf])
def test_a_case_that_no_candidate_answers_has_no_part_in_a_mean(name, worst):
    table = np.random.default_rng(0).random((5, 10))
    table[0] *= 0.1
    table[:, 3] = worst
    assert set(select_parents(table, 50, name, rng=0)) == {0}


def test_the_sample_belongs_to_the_call_as_to_a_generation():
    for name in ("downsampled-lexicase", "informed-lexicase"):
        # On a sample of one case all but one candidate solve it, or one alone.
        parents = select_parents(np.eye(30), 50, name, rng=0, share=0.01)
        solved = {int(parent) for parent in parents}
        assert len(solved) > 1
        assert len({int(parent) for parent in select_parents(1 - np.eye(30), 50, name, rng=0, share=0.01)}) == 1


def test_a_seed_a_generator_or_nothing_is_a_source_of_randomness():
    table = np.eye(5)
    same = select_parents(table, 50, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(select_parents(table, 50, rng=3), same)
    np.testing.assert_array_equal(select_parents(table, np.int64(50), rng=np.int32(3)), same)
    assert len(set(select_parents(table, 200))) == 5


def test_torch_tensors_are_tables_whatever_they_are():
    same = select_parents(BINARY, 30, rng=8)
    tensor = torch.tensor(BINARY, dtype=torch.float64)
    for given in (tensor, tensor.bfloat16(), tensor.bool(), tensor.clone().requires_grad_()):
        np.testing.assert_array_equal(select_parents(given, 30, rng=8), same)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1, got 0"),
        ({"k": 2.0}, "k must be a whole number"),
        ({"rng": -1}, "rng must be a whole number of at least 0, got -1"),
        ({"rng": "3"}, "rng must be"),
        ({"method": "lexicas"}, "Did you mean 'lexicase'"),
        ({"method": "sgd"}, "trains one candidate"),
        ({"cases": {"groups": [0]}}, "has no option 'cases'"),
        ({"method": Lexicase(), "depth": 3}, "options belong to a name"),
    ],
)
def test_a_bad_argument_is_an_error(given, message):
    with pytest.raises(InputError, match=message):
        select_parents(np.eye(3), **{"k": 3, **given})


@pytest.mark.parametrize(
    "bad", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), [["a"]], [[1j]], [[1, 2], [3]], [[{}]]]
)
def test_what_is_no_table_is_an_error(bad):
    with pytest.raises(InputError, match="an error table"):
        selection_probabilities(bad)


def test_selection_on_a_table_imports_no_torch_and_nothing_heavy():
    code = (
        "import sys, numpy as np, gradlex.selection as s; s.select_parents(np.eye(3), 5, rng=0); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'scipy', 'pandas', 'sklearn', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
