"""What becomes the parent: the winner, the average, the expected parent."""

from __future__ import annotations

import numpy as np
import pytest

from gradlex import InputError
from gradlex.selection import (
    SELECTIONS,
    Choice,
    EpsilonLexicase,
    InformedLexicase,
    Lexicase,
    TableErrors,
    Tournament,
    make_selection,
    selection_probabilities,
)
from gradlex.selection.promotion import promoting

EXACT = [
    "lexicase",
    "lexicase(on_all_fail=survive)",
    "lexicase(depth=3)",
    "epsilon-lexicase",
    "epsilon-lexicase(mode=static)",
    "downsampled-lexicase(share=0.5)",
    "plexicase(alpha=2)",
    "tournament(size=2)",
    "random",
]


def table(seed: int, candidates: int = 4, cases: int = 20) -> np.ndarray:
    return (np.random.default_rng(seed).random((candidates, cases)) < 0.4).astype(float)


def chosen(select, errors, seed: int = 0, cases: int = 20) -> Choice:
    rng = np.random.default_rng(seed)
    return select(rng.permutation(cases), errors, rng)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", range(4))
def test_expected_weighs_by_the_exact_chances(name, seed):
    select = promoting("expected", make_selection(name))
    choice = chosen(select, TableErrors(table(seed)), seed)
    exact = selection_probabilities(table(seed), name)
    assert choice.weights == pytest.approx({i: chance for i, chance in enumerate(exact) if chance > 0})
    assert sum(choice.weights.values()) == pytest.approx(1)
    assert choice.weights[choice.index] == max(choice.weights.values())
    assert choice.reason == "expected"
    assert choice.shares is choice.weights


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_winner_is_the_strategy_itself_and_an_average_evaluates_no_case(name, naive):
    select = make_selection(name)
    assert promoting("winner", select) is select
    if name == "sgd":
        assert promoting("average", select) is select
        return
    errors = naive.Asked(table(0), candidates=[0, 2, 3])
    choice = chosen(promoting("average", select), errors)
    assert choice.weights == pytest.approx({0: 1 / 3, 2: 1 / 3, 3: 1 / 3})
    assert (choice.reason, choice.cases_used, errors.calls, errors.matrices) == ("average", 0, [], 0)


@pytest.mark.parametrize("promotion", ["average", "expected"])
@pytest.mark.parametrize("name", EXACT)
def test_one_candidate_needs_no_weights_and_a_diverged_one_has_none(promotion, name, naive):
    select = promoting(promotion, make_selection(name))
    alone = chosen(select, naive.Asked(table(1), candidates=[2]))
    assert (alone.index, alone.reason, alone.weights, alone.shares) == (2, "only_candidate", None, {2: 1.0})
    choice = chosen(select, naive.Asked(table(1), candidates=[0, 3]))
    assert set(choice.weights) <= {0, 3}


def test_expected_is_what_the_strategy_chooses_on_average(naive):
    for select in (Lexicase(), Lexicase(on_all_fail="survive"), Tournament(size=2), EpsilonLexicase()):
        weights = chosen(promoting("expected", select), TableErrors(table(5))).weights
        winners = [chosen(select, TableErrors(table(5)), seed).index for seed in range(1500)]
        naive.agree(winners, np.array([weights.get(i, 0.0) for i in range(4)]))


def test_expected_of_graded_errors_takes_the_classic_rule():
    graded = table(6) + 0.5
    weights = chosen(promoting("expected", Lexicase()), TableErrors(graded)).weights
    exact = selection_probabilities(graded, on_all_fail="survive")
    assert weights == pytest.approx({i: chance for i, chance in enumerate(exact) if chance > 0})


def test_the_expected_parent_of_a_random_choice_is_the_average(naive):
    errors = naive.Asked(table(0))
    choice = chosen(promoting("expected", make_selection("random")), errors)
    assert choice.weights == {0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25}
    assert errors.matrices == 0


def test_chances_that_were_estimated_say_so_and_are_the_same_again():
    hard = (np.random.default_rng(0).random((20, 4000)) < 0.5).astype(np.uint8)
    select = promoting("expected", Lexicase())
    first = chosen(select, TableErrors(hard), cases=4000)
    assert first.reason == "estimated"
    assert chosen(select, TableErrors(hard), seed=1, cases=4000).weights == first.weights


def test_a_strategy_keeps_its_memory_while_it_is_averaged():
    memory = chosen(InformedLexicase(), TableErrors(table(0))).memory
    choice = chosen(promoting("average", InformedLexicase()), TableErrors(table(0), memory=memory))
    assert choice.memory is memory


@pytest.mark.parametrize(
    ("promotion", "name", "message"),
    [
        ("expected", "dalex", r"needs exact probabilities, as lexicase, .* got 'dalex'"),
        ("expected", "epsilon-lexicase(mode=dynamic)", "needs exact probabilities"),
        ("expected", "informed-lexicase", "needs exact probabilities"),
        ("survivors", "lexicase", "promotion must be 'winner', 'average' or 'expected', got 'survivors'"),
    ],
)
def test_a_promotion_without_a_meaning_is_an_error(promotion, name, message):
    with pytest.raises(InputError, match=message):
        promoting(promotion, make_selection(name))


def test_a_function_can_be_averaged_but_has_no_expected_parent():
    own = make_selection(lambda cases, errors, rng: Choice(index=0, reason="first"))
    assert chosen(promoting("average", own), TableErrors(table(0))).weights == dict.fromkeys(range(4), 0.25)
    with pytest.raises(InputError, match="got 'given'"):
        promoting("expected", own)


def test_an_epsilon_for_each_case_has_an_expected_parent():
    select = promoting("expected", EpsilonLexicase(epsilon=[0.1] * 20))
    assert chosen(select, TableErrors(table(0))).reason == "expected"


def test_the_selections_with_exact_chances_are_named_without_the_baseline():
    with pytest.raises(InputError) as raised:
        promoting("expected", make_selection("dalex"))
    assert "sgd" not in str(raised.value)
