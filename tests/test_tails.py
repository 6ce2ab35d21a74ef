"""The learning rate after the branch, and what the branch decides."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlex import InputError, Recipe
from gradlex.schedules import TAILS


def cosine(generation, generations, lr=0.4):
    return 0.5 * lr * (1 + math.cos(math.pi * generation / generations))


def rates(**fields):
    recipe = Recipe(**{"lr": 0.4, "generations": 8, "branch_at": 0.5, **fields})
    return [recipe.lr_at(generation) for generation in range(8)]


FIRST = [cosine(generation, 8) for generation in range(4)]
EXPECTED = {
    "continue": ({}, [cosine(generation, 8) for generation in range(4, 8)]),
    "continue, times 3": (
        {"tail_options": {"factor": 3}},
        [3 * cosine(generation, 8) for generation in range(4, 8)],
    ),
    "constant": ({"tail": "constant"}, [0.2] * 4),
    "constant, own": ({"tail": "constant", "tail_options": {"lr": 0.05}}, [0.05] * 4),
    "constant, times 2": ({"tail": "constant", "tail_options": {"factor": 2}}, [0.4] * 4),
    "linear": ({"tail": "linear"}, [0.2, 0.2, 0.2, 0.1]),
    "linear, own": ({"tail": "linear", "tail_options": {"lr": 1.0, "hold": 0}}, [1.0, 0.75, 0.5, 0.25]),
    "cyclic": ({"tail": "cyclic", "tail_options": {"cycles": 2, "low": 0.5}}, [0.2, 0.15, 0.2, 0.15]),
    "cyclic, own": (
        {"tail": "cyclic", "tail_options": {"cycles": 1, "low": 0.2, "lr": 1.0}},
        [1.0, 0.8, 0.6, 0.4],
    ),
}


@pytest.mark.parametrize("tail", EXPECTED)
def test_a_tail_begins_at_the_branch_and_the_schedule_goes_on_until_then(tail):
    fields, last = EXPECTED[tail]
    assert rates(**fields) == pytest.approx([*FIRST, *last], rel=1e-12)


def test_the_schedule_that_continues_is_the_schedule_itself_bit_for_bit():
    assert rates() == [Recipe(lr=0.4, generations=8).lr_at(generation) for generation in range(8)]
    steady = {"schedule": "constant", "tail": "constant"}
    assert rates(**steady) == [0.4] * 8


@given(tail=st.integers(1, 200), cycles=st.integers(1, 200), before=st.integers(0, 30))
def test_a_cycle_begins_at_the_top(tail, cycles, before):
    """Whatever the rounding: 0.29 x 100 is a little less than 29."""
    if tail % cycles:
        cycles = tail
    generations = before + tail
    recipe = Recipe(
        lr=1.0,
        schedule="constant",
        generations=generations,
        branch_at=before / generations or 1e-9,
        tail="cyclic",
        tail_options={"cycles": cycles},
    )
    assert recipe.branch == before
    tops = [recipe.lr_at(before + start) for start in range(0, tail, tail // cycles)]
    assert tops == [1.0] * cycles


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tail": "cosine"}, r"unknown tail 'cosine'"),
        ({"tail": "constnt"}, r"unknown tail 'constnt'.*Did you mean 'constant'"),
        ({"tail": "constant", "tail_options": {"hold": 1}}, "tail 'constant' has no option 'hold'"),
        ({"tail_options": {"lr": 0.1}}, r"tail 'continue' has no option 'lr': it takes factor"),
        ({"tail_options": {"factor": 0}}, "factor must be a number above 0, got 0"),
        ({"tail": "linear", "tail_options": {"hold": 1}}, "hold must be a number of at least 0 and below 1"),
        ({"tail": "cyclic", "tail_options": {"cycles": 1.5}}, "cycles must be a whole number of at least 1"),
        ({"tail": "cyclic", "tail_options": {"lr": -1}}, "lr must be a number above 0"),
        (
            {"branch_at": 0.0, "tail": "constant"},
            "tail 'constant' begins where a run branches: set branch_at",
        ),
        ({"branch_at": 0.0, "tail_options": {"factor": 3}}, "begins where a run branches: set branch_at"),
        ({"branch_at": 1}, "branch_at must be a number of at least 0 and below 1, got 1"),
        ({"branch_at": -0.1}, "branch_at must be a number of at least 0 and below 1"),
    ],
)
def test_what_no_tail_can_have_is_refused(fields, said):
    with pytest.raises(InputError, match=said):
        rates(**fields)


def test_every_tail_says_what_it_does():
    assert all(tail.__doc__ for tail in TAILS.values())


@given(generations=st.integers(1, 300), share=st.floats(0, 1, exclude_max=True))
def test_one_network_until_the_branch_then_a_population_for_one_generation_at_least(generations, share):
    recipe = Recipe(generations=generations, branch_at=share, population=3, momentum="reset")
    sizes = [recipe.population_at(generation) for generation in range(generations)]
    assert sizes == [1] * recipe.branch + [3] * (generations - recipe.branch)
    assert sizes[-1] == 3
    assert abs(recipe.branch - share * generations) <= 1
    momenta = [recipe.momentum_at(generation) for generation in range(generations)]
    assert momenta == ["inherit"] * recipe.branch + ["reset"] * (generations - recipe.branch)


def test_a_branch_needs_the_number_of_generations():
    with pytest.raises(InputError, match="leaves generations open"):
        _ = Recipe(branch_at=0.5).branch
    assert Recipe().branch == 0


def test_a_run_that_branches_cannot_be_made_longer():
    steady = Recipe(schedule="constant", generations=4)
    assert steady.extendable
    assert not steady.replace(branch_at=0.5).extendable


def test_the_constant_tail_holds_the_rate_of_the_branch_in_every_generation():
    recipe = Recipe(lr=0.1, generations=40, branch_at=0.75, tail="constant")
    tail = {recipe.lr_at(generation) for generation in range(30, 40)}
    assert tail == {recipe.replace(tail="continue").lr_at(30)}
    assert all(
        one >= other
        for one, other in itertools.pairwise(recipe.lr_at(generation) for generation in range(40))
    )
