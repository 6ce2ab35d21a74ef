"""What candidates differ in: settings in turn, then those of the winner, perturbed."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex import InputError, Parent, Recipe
from gradlex.population import InheritVariation, Setting, settings_of, steps_of

VARY = {"augment": "none|flip|crop1,flip", "weight_decay": [1e-4, 5e-4], "lr": "0.5|1|2"}
BASE = Recipe(population=4, generations=8, momentum="reset", branch_at=0.5, vary=VARY, seed=3)


def parent_of(generation, **setting):
    slots = {"variation": {key: torch.tensor(value, dtype=torch.float64) for key, value in setting.items()}}
    return Parent(generation=generation, state={}, slots=slots if setting else {})


@dataclasses.dataclass
class Promoted:
    weights: dict[int, float]


def test_candidates_get_the_values_in_turn_from_the_branch_on():
    assert settings_of(BASE, parent_of(3)) == [Setting()]
    found = settings_of(BASE, parent_of(4))
    assert [each.augment for each in found] == ["none", "flip", "crop1,flip", "none"]
    assert [each.weight_decay for each in found] == [1e-4, 5e-4, 1e-4, 5e-4]
    assert [each.lr for each in found] == [0.5, 1.0, 2.0, 0.5]
    assert settings_of(BASE, parent_of(7)) == found
    assert found[0].plain() == {"lr": 0.5, "weight_decay": 1e-4, "augment": "none"}
    assert Setting(lr=2.0).plain() == {"lr": 2.0}


def test_text_and_lists_are_the_same_values():
    listed = Recipe(vary={"lr": [0.5, 1, 2], "augment": ["crop4,flip", "none"], "weight_decay": (0, 1e-4)})
    worded = Recipe(vary={"lr": "0.5|1|2", "augment": "crop4,flip|none", "weight_decay": "0|1e-4"})
    assert listed.vary == worded.vary
    assert worded.vary == {
        "lr": [0.5, 1.0, 2.0],
        "augment": ["crop4,flip", "none"],
        "weight_decay": [0.0, 1e-4],
    }
    assert Recipe.from_dict(worded.to_dict()) == worded
    assert Recipe(vary={"lr": 2}).vary == {"lr": [2.0]}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vary": {"momentum": "0|1"}}, "unknown setting to vary 'momentum'"),
        ({"vary": {"learning_rate": "1"}}, "unknown setting to vary 'learning_rate'"),
        ({"vary": {"lr": "fast|slow"}}, r"vary lr must be numbers such as 0.5\|1\|2, got 'fast\|slow'"),
        ({"vary": {"lr": "0|1"}}, "vary lr must be a number above 0, got 0.0"),
        ({"vary": {"lr": "1|nan"}}, "vary lr must be a number above 0, got nan"),
        ({"vary": {"lr": ""}}, "vary lr must be numbers"),
        ({"vary": {"lr": []}}, "vary lr must name at least one value"),
        ({"vary": {"lr": [True]}}, "vary lr must be a number above 0, got True"),
        ({"vary": {"lr": [None]}}, "vary lr must be a number above 0, got None"),
        ({"vary": {"weight_decay": "-1"}}, "vary weight_decay must be a number of at least 0, got -1"),
        ({"vary": {"augment": "flip|"}}, "vary augment must be text, got ''"),
        ({"vary": {"augment": [3]}}, "vary augment must be text, got 3"),
        ({"inherit_variation": True}, "inherit_variation needs settings to inherit: give vary"),
        ({"generations": 2, "timeline": {"lr": [0.1]}}, "timeline lr must be a list .* of the 2 generations"),
        ({"generations": 2, "timeline": {"lr": "0.1|0.2"}}, "timeline lr must be a list"),
        ({"generations": 1, "timeline": {"rate": [0.1]}}, "unknown setting of a timeline 'rate'"),
        ({"generations": 1, "timeline": {"lr": ["fast"]}}, "timeline lr must be a number .*, got 'fast'"),
        ({"generations": 1, "timeline": {"weight_decay": [-1.0]}}, "timeline weight_decay must be a number"),
        ({"generations": 1, "timeline": {"lr": [0.1]}, "vary": {"lr": "1"}}, "leave vary out"),
        (
            {"generations": 1, "timeline": {"lr": [0.1]}, "branch_at": 0.5, "tail": "constant"},
            "timeline gives the learning rate of every generation: leave tail out",
        ),
    ],
)
def test_what_is_no_variation_is_refused(fields, said):
    with pytest.raises(InputError, match=said):
        Recipe(**fields)


INHERITED = BASE.replace(inherit_variation=True)


def test_the_first_candidate_has_the_parents_setting_and_the_others_one_near_it():
    found = settings_of(INHERITED, parent_of(5, augment=2.0, weight_decay=3e-4, lr=1.5))
    assert found[0] == Setting(augment="crop1,flip", weight_decay=3e-4, lr=1.5)
    for other in found[1:]:
        assert other.lr in (pytest.approx(1.5 * 0.8), pytest.approx(1.5 * 1.25))
        assert other.weight_decay in (pytest.approx(3e-4 * 0.8), pytest.approx(3e-4 * 1.25))
        assert other.augment in ("none", "flip", "crop1,flip")
    assert len({(each.lr, each.weight_decay, each.augment) for each in found}) > 1


@settings(max_examples=60, deadline=None)
@given(
    generation=st.integers(4, 7),
    seed=st.integers(0, 10_000),
    lr=st.floats(1e-3, 1e3),
    decay=st.floats(0, 1),
    place=st.integers(0, 2),
)
def test_perturbed_settings_stay_within_reach_and_are_the_same_again(generation, seed, lr, decay, place):
    recipe = INHERITED.replace(seed=seed)
    parent = parent_of(generation, augment=float(place), weight_decay=decay, lr=lr)
    found = settings_of(recipe, parent)
    assert found == settings_of(recipe, parent)
    for each in found:
        assert 0.5 / 4 <= each.lr <= 2 * 4
        assert 1e-4 / 4 <= each.weight_decay <= 5e-4 * 4


def test_a_quarter_of_the_augmentations_is_drawn_anew_and_both_factors_are_as_likely():
    kept = larger = number = 0
    for seed in range(700):
        parent = parent_of(5, augment=1.0, weight_decay=3e-4, lr=1.0)
        for each in settings_of(INHERITED.replace(seed=seed), parent)[1:]:
            number += 1
            kept += each.augment == "flip"
            larger += each.lr > 1
    assert abs(kept / number - (0.75 + 0.25 / 3)) < 0.03
    assert abs(larger / number - 0.5) < 0.04


def inherited(weights, generation=4, recipe=INHERITED, before=None):
    step = InheritVariation(recipe)
    parent = step(
        Parent(generation=generation + 1, state={}), before or parent_of(generation), Promoted(weights)
    )
    return {key: float(value) for key, value in parent.slots["variation"].items()}


def test_the_winners_setting_becomes_the_parents():
    assert inherited({2: 1.0}) == pytest.approx({"augment": 2.0, "weight_decay": 1e-4, "lr": 2.0}, rel=1e-12)
    before = parent_of(5, augment=1.0, weight_decay=3e-4, lr=1.0)
    winner = settings_of(INHERITED, before)[3]
    found = inherited({3: 1.0}, 5, before=before)
    assert found["lr"] == pytest.approx(winner.lr, rel=1e-12)
    assert ["none", "flip", "crop1,flip"][int(found["augment"])] == winner.augment


def test_the_next_generation_starts_from_what_was_handed_on():
    step = InheritVariation(INHERITED)
    parent = step(Parent(generation=5, state={}), parent_of(4), Promoted({1: 1.0}))
    assert settings_of(INHERITED, parent)[0].plain() == pytest.approx(
        {"lr": 1.0, "weight_decay": 5e-4, "augment": "flip"}
    )


def test_a_mean_of_candidates_has_the_geometric_mean_of_their_settings():
    found = inherited({0: 0.5, 1: 0.25, 2: 0.25})
    assert found["lr"] == pytest.approx(
        math.exp(0.5 * math.log(0.5) + 0.25 * math.log(1) + 0.25 * math.log(2))
    )
    assert found["weight_decay"] == pytest.approx(1e-4**0.75 * 5e-4**0.25)
    assert found["augment"] == 0  # of the largest weight


def test_where_a_number_is_0_it_is_the_plain_mean():
    recipe = INHERITED.replace(vary={"weight_decay": [0.0, 4e-4]})
    assert inherited({0: 0.25, 1: 0.75}, recipe=recipe) == {"weight_decay": pytest.approx(3e-4)}
    assert inherited({1: 1.0}, recipe=recipe) == {"weight_decay": pytest.approx(4e-4)}


def test_nothing_is_handed_on_before_the_branch():
    step = InheritVariation(INHERITED)
    parent = Parent(generation=4, state={})
    assert step(parent, parent_of(3), Promoted({0: 1.0})) is parent
    kinds = [type(each) for each in steps_of(INHERITED)]
    assert kinds == [InheritVariation]
    assert steps_of(BASE) == ()


def test_a_timeline_gives_every_generation_its_settings():
    recipe = Recipe(
        selection="sgd",
        population=1,
        momentum="inherit",
        generations=3,
        timeline={
            "lr": [0.3, 0.2, 0.0],
            "weight_decay": [0.0, 1e-3, 1e-2],
            "augment": [None, "flip", "none"],
        },
    )
    assert [recipe.lr_at(generation) for generation in range(3)] == [0.3, 0.2, 0.0]
    found = [settings_of(recipe, parent_of(generation)) for generation in range(3)]
    assert found == [
        [Setting(weight_decay=0.0)],
        [Setting(weight_decay=1e-3, augment="flip")],
        [Setting(weight_decay=1e-2, augment="none")],
    ]
