"""One contract over all selection methods, in training and alone on a table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gradlex.errors import InputError
from gradlex.selection import SELECTIONS, Choice, TableErrors, bind, select_parents


def own_strategy(cases, errors, rng, *, bias: int = 0) -> Choice:
    """One of the user's: the least error on the first case, ties at random."""
    if len(errors.candidates) == 1:
        return Choice(index=int(errors.candidates[0]), reason="only_candidate")
    values = errors(cases[:1], errors.candidates)[:, 0] + bias
    best = errors.candidates[values == values.min()]
    return Choice(index=int(rng.choice(best)), reason="first_case", cases_used=1)


METHODS = [
    ("lexicase", {"on_all_fail": "survive"}),
    ("lexicase", {"on_all_fail": "random"}),
    ("lexicase", {"on_all_fail": "survive", "depth": 5}),
    ("epsilon-lexicase", {"epsilon_mode": "static"}),
    ("epsilon-lexicase", {"epsilon_mode": "semi-dynamic"}),
    ("epsilon-lexicase", {"epsilon_mode": "dynamic"}),
    ("epsilon-lexicase", {"epsilon": 0.5}),
    ("batch-lexicase", {"case_batch": 2}),
    ("downsampled-lexicase", {"share": 0.5}),
    ("downsampled-lexicase", {"share": 0.5, "depth": 2}),
    ("informed-lexicase", {"share": 0.5, "refresh": 3}),
    ("dalex", {"sigma": 2.0}),
    ("plexicase", {"alpha": 1.5}),
    ("tournament", {"tournament_size": 2}),
    ("tournament", {}),
    ("random", {}),
    (own_strategy, {"bias": 1}),
]
every_method = pytest.mark.parametrize(
    ("method", "options"),
    METHODS,
    ids=[" ".join([getattr(m, "__name__", m), *map(str, o.values())]) for m, o in METHODS],
)

rng = np.random.default_rng(11)
TABLE = (rng.random((5, 8)) < 0.5).astype(float)
ODD = {
    "one candidate": np.array([[1.0, 0.0, 1.0]]),
    "one case": np.array([[1.0], [0.0], [0.0]]),
    "one of each": np.zeros((1, 1)),
    "all equal": np.zeros((4, 6)),
    "all failing": np.ones((4, 6)),
    "a NaN": np.array([[0.0, np.nan], [1.0, 0.0], [0.0, 1.0]]),
    "all NaN": np.full((3, 4), np.nan),
    "infinite": np.array([[np.inf, 0.0], [0.0, np.inf]]),
    "booleans": np.eye(4, dtype=bool),
    "integers": np.eye(4, dtype=np.int64),
    "float32": np.eye(4, dtype=np.float32),
}


def choose(method, options: dict, table: np.ndarray, seed: int):
    stream = np.random.default_rng(seed)
    return bind(method, **options)(stream.permutation(table.shape[1]), TableErrors(table), stream)


def counts(method, options: dict, table: np.ndarray, draws: int, seed: int = 0) -> np.ndarray:
    stream = np.random.default_rng(seed)
    select, errors = bind(method, **options), TableErrors(table)
    chosen = [select(stream.permutation(table.shape[1]), errors, stream).index for _ in range(draws)]
    return np.bincount(chosen, minlength=len(table))


def test_the_contract_covers_every_method():
    assert {method for method, _ in METHODS} - {own_strategy} | {"sgd"} == set(SELECTIONS)


@every_method
@pytest.mark.parametrize("name", ODD)
def test_a_valid_index_whatever_the_table(method, options, name):
    table = ODD[name]
    choice = choose(method, options, table, 0)
    assert 0 <= choice.index < len(table)
    assert isinstance(choice.index, int)
    assert choice.cases_used <= table.shape[1]
    if len(table) == 1:
        assert choice.reason == "only_candidate"
    if options.get("tournament_size", 1) <= len(table):
        parents = select_parents(table, 7, method, rng=0, **options)
        assert parents.shape == (7,)
        assert parents.dtype.kind == "i"
        assert ((parents >= 0) & (parents < len(table))).all()


@every_method
def test_only_candidates_that_did_not_diverge_are_chosen(method, options):
    stream = np.random.default_rng(0)
    table = np.vstack([TABLE, TABLE[::-1]])
    for _ in range(30):
        errors = TableErrors(table, candidates=[2, 5, 9])
        assert bind(method, **options)(stream.permutation(8), errors, stream).index in (2, 5, 9)


@every_method
def test_the_same_stream_gives_the_same_answer(method, options):
    for seed in range(10):
        assert choose(method, options, TABLE, seed).index == choose(method, options, TABLE, seed).index
        first, second = (select_parents(TABLE, 20, method, rng=seed, **options) for _ in range(2))
        np.testing.assert_array_equal(first, second)


@every_method
def test_permuting_the_candidates_permutes_the_distribution(method, options):
    order = np.array([3, 0, 4, 2, 1])
    original = counts(method, options, TABLE, 1200, 1)[order]
    permuted = counts(method, options, TABLE[order], 1200, 2)
    chosen = original + permuted > 0
    if chosen.sum() > 1:
        assert stats.chi2_contingency([original[chosen], permuted[chosen]]).pvalue > 1e-3


@every_method
def test_identical_candidates_are_chosen_uniformly(method, options):
    table = np.repeat((np.random.default_rng(3).random((1, 8)) < 0.5).astype(float), 4, axis=0)
    assert stats.chisquare(counts(method, options, table, 1200)).pvalue > 1e-3
    if "share" not in options:
        parents = select_parents(table, 2000, method, rng=4, **options)
        assert stats.chisquare(np.bincount(parents, minlength=4)).pvalue > 1e-3


@every_method
def test_a_twin_is_chosen_as_often_as_its_twin(method, options):
    table = np.vstack([TABLE, TABLE[0]])
    drawn = counts(method, options, table, 1200)
    both = drawn[0] + drawn[5]
    assert both == 0 or stats.binomtest(int(drawn[0]), int(both)).pvalue > 1e-3


@every_method
def test_whoever_is_far_better_on_every_case_is_chosen_where_the_definition_says_so(method, options):
    # Random does not look, and a tournament only at its entrants. The others differ by little among themselves,
    # so that the best is not within the median absolute deviation of anyone.
    if method == "random" or options.get("tournament_size"):
        assert (counts(method, options, np.eye(4), 500) > 0).all()
        return
    graded = 10 + np.random.default_rng(5).random((6, 9))
    graded[4] = 0.0
    binary = np.ones((6, 9))
    binary[4] = 0.0
    for table in (graded, binary):
        assert counts(method, options, table, 50)[4] == 50
        alone = {"on_all_fail": "survive"} if "on_all_fail" in options else {}
        assert set(select_parents(table, 50, method, rng=0, **{**options, **alone})) == {4}


@every_method
def test_the_table_is_left_as_it_was(method, options):
    table = TABLE.copy()
    table.flags.writeable = False
    choose(method, options, table, 0)
    select_parents(table, 5, method, rng=0, **options)


@every_method
@pytest.mark.parametrize("empty", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((0, 0))])
def test_an_empty_table_is_refused(method, options, empty):
    with pytest.raises(InputError, match="at least one of each"):
        select_parents(empty, 3, method, **options)
