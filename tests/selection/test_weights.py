"""What becomes the parent: the weights that each promotion gives the candidates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex import InputError
from gradlex.selection import SELECTIONS, Choice, TableErrors, bind, promoting, selection_probabilities

EXACT = ["lexicase", "epsilon-lexicase", "downsampled-lexicase", "plexicase", "tournament", "random"]
FILTERS = ["lexicase", "downsampled-lexicase", "informed-lexicase"]
WAYS = [
    *(("winner", name) for name in SELECTIONS if name != "sgd"),
    *(("average", name) for name in SELECTIONS if name != "sgd"),
    *(("expected", name) for name in EXACT),
    *(("survivors", name) for name in FILTERS),
]
every_way = pytest.mark.parametrize(("promotion", "method"), WAYS)


def own_filter(cases, errors, rng, *, depth: int | None = None) -> Choice:
    """Keeps candidates 1 and 2, whatever they do."""
    return Choice(index=1, reason="mine", cases_used=depth or 0, survivors=((depth or 0, (1, 2)),))


def table(seed: int, candidates: int = 4, cases: int = 20) -> np.ndarray:
    return (np.random.default_rng(seed).random((candidates, cases)) < 0.4).astype(np.float32)


def chosen(select, errors: TableErrors, seed: int = 0, cases: int = 20) -> Choice:
    rng = np.random.default_rng(seed)
    return select(rng.permutation(cases), errors, rng)


@every_way
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_weights_sum_to_one_and_the_index_has_the_largest(promotion, method, seed):
    choice = chosen(promoting(promotion, method), TableErrors(table(seed)), seed)
    assert sum(choice.shares.values()) == pytest.approx(1, abs=1e-12)
    assert all(0 < weight <= 1 for weight in choice.shares.values())
    assert list(choice.shares) == sorted(choice.shares)
    assert choice.index == next(
        i for i, weight in choice.shares.items() if weight == max(choice.shares.values())
    )


@every_way
def test_a_diverged_candidate_has_no_weight(promotion, method):
    for seed in range(20):
        errors = TableErrors(table(seed, candidates=6), candidates=[0, 2, 5])
        assert set(chosen(promoting(promotion, method), errors, seed).shares) <= {0, 2, 5}


@every_way
def test_one_candidate_makes_all_promotions_equal(promotion, method):
    errors = TableErrors(table(0), candidates=[2])
    choice = chosen(promoting(promotion, method), errors)
    assert (choice.index, choice.reason, dict(choice.shares)) == (2, "only_candidate", {2: 1.0})
    assert errors.evaluated == 0


def test_winner_is_the_strategy_itself():
    for seed in range(10):
        one, other = (
            chosen(s, TableErrors(table(seed)), seed)
            for s in (promoting("winner", "lexicase"), bind("lexicase"))
        )
        assert one == other
        assert one.weights is None


def test_average_weighs_everyone_alike_and_evaluates_no_case():
    errors = TableErrors(table(1, candidates=5), candidates=[1, 3, 4])
    choice = chosen(promoting("average", "lexicase"), errors)
    assert choice.weights == {1: 1 / 3, 3: 1 / 3, 4: 1 / 3}
    assert (choice.index, choice.reason, choice.cases_used, errors.evaluated) == (1, "average", 0, 0)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("size", [None, 7])
def test_expected_weighs_by_the_exact_chances_on_the_first_cases_of_the_order(method, size):
    for seed in range(5):
        errors = TableErrors(table(seed), candidates=[0, 1, 3])
        cases = None if method == "random" else size  # which looks at none
        choice = chosen(promoting("expected", method, cases=cases), errors, seed)
        order = np.random.default_rng(seed).permutation(20)[:size]
        chances = selection_probabilities(table(seed)[np.ix_([0, 1, 3], order)], method=method)
        for index, chance in zip([0, 1, 3], chances, strict=True):
            assert choice.weights.get(index, 0.0) == pytest.approx(chance, abs=1e-12)
        if method != "random":
            assert (choice.reason, choice.cases_used, errors.evaluated) == (
                "expected",
                len(order),
                3 * len(order),
            )


def test_expected_follows_the_options_of_the_method():
    errors = table(3)
    for rule in ("random", "survive"):
        choice = chosen(promoting("expected", "lexicase", options={"on_all_fail": rule}), TableErrors(errors))
        expected = selection_probabilities(errors, on_all_fail=rule)
        assert [choice.weights.get(i, 0.0) for i in range(4)] == pytest.approx(expected)


def test_expected_weighs_as_often_as_the_strategy_chooses():
    errors = table(8)
    drawn = np.bincount(
        [chosen(bind("lexicase"), TableErrors(errors), seed).index for seed in range(3000)], minlength=4
    )
    weights = chosen(promoting("expected", "lexicase"), TableErrors(errors)).weights
    assert drawn / 3000 == pytest.approx([weights.get(i, 0.0) for i in range(4)], abs=0.04)


def test_one_hot_chances_are_a_weight_of_exactly_one():
    errors = np.ones((3, 9))
    errors[1] = 0
    choice = chosen(promoting("expected", "lexicase"), TableErrors(errors), cases=9)
    assert (choice.index, choice.weights) == (1, {1: 1.0})


def test_expected_tournament_continues_when_a_candidate_has_diverged():
    select = promoting("expected", "tournament", options={"tournament_size": 4})
    choice = chosen(select, TableErrors(table(2), candidates=[0, 1, 2]))
    assert choice.weights == {int(table(2)[:3].mean(axis=1).argmin()): 1.0}


def test_the_expected_parent_of_a_random_choice_is_the_average_and_evaluates_no_case():
    errors = TableErrors(table(2))
    assert chosen(promoting("expected", "random"), errors).weights == dict.fromkeys(range(4), 0.25)
    assert errors.evaluated == 0


@pytest.mark.parametrize("rule", ["random", "survive"])
@pytest.mark.parametrize("depth", [1, 2, 5, None])
def test_survivors_are_the_pool_that_lexicase_has_left(depth, rule, naive):
    sizes = set()
    for seed in range(40):
        errors = table(seed, candidates=5)
        errors[4] = errors[0]  # a pair that no case can part
        choice = chosen(
            promoting("survivors", "lexicase", options={"depth": depth, "on_all_fail": rule}),
            TableErrors(errors),
            seed,
        )
        order = np.random.default_rng(seed).permutation(20)[:depth]
        pool, used, reason, trail = naive.walk(errors, order, naive.lexicase_rule(rule))
        assert choice.weights == dict.fromkeys(pool, pytest.approx(1 / len(pool)))
        assert (choice.index, choice.cases_used, choice.reason) == (pool[0], used, reason)
        assert list(choice.survivors) == trail
        sizes.add(len(pool))
    assert len(sizes) > 1


def test_a_depth_saves_evaluations():
    errors = np.zeros((3, 500))
    asked = {}
    for depth in (10, None):
        counted = TableErrors(errors)
        chosen(promoting("survivors", "lexicase", options={"depth": depth}), counted, cases=500)
        asked[depth] = counted.evaluated
    assert asked == {10: 30, None: 1500}


@pytest.mark.parametrize("method", ["downsampled-lexicase", "informed-lexicase"])
def test_a_depth_does_not_change_the_sample(method):
    for seed in range(10):
        whole, part = (
            chosen(
                promoting("survivors", method, options={"depth": depth, "share": 0.5}),
                TableErrors(table(seed)),
                seed,
            )
            for depth in (None, 3)
        )
        assert part.survivors == tuple(step for step in whole.survivors if step[0] <= 3)


def test_a_strategy_keeps_its_memory():
    memory = {"solved": np.zeros((20, 1), dtype=np.uint8), "age": np.array([3])}
    errors = TableErrors(table(0), memory=memory)
    survivors = chosen(promoting("survivors", "informed-lexicase"), errors)
    assert survivors.memory["age"].tolist() == [4]
    assert chosen(promoting("average", "informed-lexicase"), errors).memory is memory


def test_the_baseline_has_one_candidate_so_every_promotion_is_allowed():
    for promotion in ("winner", "average", "expected", "survivors"):
        assert chosen(promoting(promotion, "sgd"), TableErrors(table(0, candidates=1))).shares == {0: 1.0}


REFUSED = {
    "cases without expected": (
        ("average", "lexicase", {"cases": 5}),
        "promotion_cases belongs to promotion 'expected', got 5 with promotion 'average': leave it out",
    ),
    "no cases": (
        ("expected", "lexicase", {"cases": 0}),
        "promotion_cases must be a whole number of at least 1 or None, got 0",
    ),
    "an unknown promotion": (
        ("expectd", "lexicase", {}),
        r"promotion must be 'winner', .*got 'expectd'\. Did you mean 'expected'",
    ),
    **{
        f"survivors of {method}": (
            ("survivors", method, {}),
            f"'survivors' needs .*lexicase, downsampled-lexicase, informed-lexicase; got '{method}': use",
        )
        for method in SELECTIONS
        if method not in (*FILTERS, "sgd")
    },
    **{
        f"expected {method}": (
            ("expected", method, {}),
            f"exact probabilities .lexicase, .*got '{method}': use one of them, or promotion 'average'",
        )
        for method in ("batch-lexicase", "informed-lexicase", "dalex")
    },
    "expected with the pool's own epsilon": (
        ("expected", "epsilon-lexicase", {"options": {"epsilon_mode": "dynamic"}}),
        "unless its epsilon is the pool's own",
    ),
    **{
        f"cases of {method}": (
            ("expected", method, {"cases": 5}),
            f"promotion_cases counts cases, and selection '{method}' evaluates none, got 5: leave it out",
        )
        for method in ("random", "sgd")
    },
    "depth of sgd": (
        ("survivors", "sgd", {"options": {"depth": 5}}),
        "selection 'sgd' has no option 'depth': it takes none",
    ),
    "an unknown option": (
        ("average", "lexicase", {"options": {"sigma": 2.0}}),
        "selection 'lexicase' has no option 'sigma'",
    ),
    "expected of one's own": (("expected", own_filter, {}), "got '.*:own_filter': use one of them"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_combination_without_a_meaning_is_refused(what):
    (promotion, method, settings), message = REFUSED[what]
    with pytest.raises(InputError, match=message):
        promoting(promotion, method, **settings)


def test_a_strategy_of_ones_own_with_a_depth_has_survivors():
    choice = chosen(promoting("survivors", own_filter, options={"depth": 3}), TableErrors(table(0)))
    assert (choice.weights, choice.cases_used) == ({1: 0.5, 2: 0.5}, 3)


def test_a_strategy_of_ones_own_can_be_averaged():
    assert chosen(promoting("average", own_filter), TableErrors(table(0))).weights == dict.fromkeys(
        range(4), 0.25
    )


def test_a_depth_ends_the_winner_s_selection_too(naive):
    for seed in range(40):
        choice = chosen(promoting("winner", "lexicase", options={"depth": 2}), TableErrors(table(seed)), seed)
        order = np.random.default_rng(seed).permutation(20)[:2]
        pool, used, reason, trail = naive.walk(table(seed), order, naive.lexicase_rule("random"))
        assert choice.index in pool
        assert (choice.cases_used, choice.reason, list(choice.survivors)) == (used, reason, trail)


@pytest.mark.parametrize("method", ["lexicase", "downsampled-lexicase"])
def test_expected_follows_the_depth(method):
    errors = table(3)
    choice = chosen(promoting("expected", method, options={"depth": 2}), TableErrors(errors))
    exact = selection_probabilities(errors, method=method, depth=2)
    assert [choice.weights.get(i, 0.0) for i in range(4)] == pytest.approx(exact)
    assert not np.allclose(exact, selection_probabilities(errors, method=method, depth=1))


def test_chances_that_were_estimated_are_said_to_be_and_are_the_same_after_a_resume():
    errors = (np.random.default_rng(1).random((16, 2000)) < 0.5).astype(np.float32)
    one, other = (chosen(promoting("expected", "lexicase"), TableErrors(errors), s, 2000) for s in (0, 0))
    assert one.reason == "estimated"
    assert one.weights == other.weights


def test_every_method_is_tried():
    assert {name for name, info in SELECTIONS.items() if info.exact} == set(EXACT)
    assert {name for name, info in SELECTIONS.items() if "depth" in info.options} == set(FILTERS)
