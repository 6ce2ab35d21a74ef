from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradlex import InputError, Recipe


@pytest.mark.parametrize("generations", [1, 2, 7, 60])
def test_the_cosine_schedule_is_that_of_torch(generations):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=generations)
    recipe = Recipe(lr=0.3, generations=generations)
    for generation in range(generations):
        assert recipe.lr_at(generation) == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        schedule.step()


@given(generation=st.integers(0, 1000), lr=st.floats(1e-6, 1e3))
def test_the_constant_schedule_never_changes_the_rate(generation, lr):
    assert Recipe(lr=lr, schedule="constant").lr_at(generation) == lr


@given(generations=st.integers(2, 300))
def test_the_cosine_schedule_starts_at_the_rate_and_falls_to_almost_nothing_but_not_to_zero(generations):
    recipe = Recipe(lr=0.1, generations=generations)
    rates = [recipe.lr_at(generation) for generation in range(generations)]
    assert rates[0] == 0.1
    assert all(one > other > 0 for one, other in itertools.pairwise(rates))


def test_a_cosine_rate_needs_the_number_of_generations():
    with pytest.raises(
        InputError, match=r"cosine schedule needs the number of generations.*Recipe\(generations"
    ):
        Recipe().lr_at(0)


def _recipes():
    return st.builds(
        Recipe,
        population=st.none() | st.integers(1, 99),
        momentum=st.sampled_from([None, "none", "reset", "inherit"]),
        generations=st.none() | st.integers(1, 10**6),
        lr=st.floats(1e-9, 1e9),
        weight_decay=st.floats(0, 1e3),
        optimizer_options=st.dictionaries(
            st.text(), st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
        ),
        augment=st.none() | st.just("crop4,flip"),
        threads=st.just("auto") | st.integers(1, 64),
        seed=st.integers(0, 2**128),
        selection_options=st.dictionaries(st.sampled_from(["share", "refresh"]), st.floats(0.01, 1)),
    )


@given(_recipes())
def test_a_recipe_comes_back_from_json_as_it_was(recipe):
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_the_plain_form_has_every_field_in_its_order():
    assert list(Recipe().to_dict()) == [field.name for field in dataclasses.fields(Recipe)]


def test_an_unknown_field_is_refused_with_its_nearest_neighbour():
    with pytest.raises(InputError, match=r"recipe field 'populaton'.*'population'"):
        Recipe.from_dict({"populaton": 4})


def test_a_recipe_cannot_be_changed_only_replaced():
    recipe = Recipe()
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.lr = 1.0
    assert recipe.replace(lr=1.0).lr == 1.0
    assert recipe.lr == 0.1
    with pytest.raises(InputError):
        recipe.replace(lr=-1.0)


NOT_WHOLE = (0, -1, 1.5, True, "4", float("nan"))


@pytest.mark.parametrize(
    "field",
    [
        "population",
        "generations",
        "batch_size",
        "train_size",
        "image_size",
        "promotion_cases",
        "threads",
    ],
)
@pytest.mark.parametrize("value", NOT_WHOLE)
def test_a_count_must_be_a_whole_number_from_one(field, value):
    with pytest.raises(InputError, match=f"{field} must be a whole number of at least 1.*, got {value!r}"):
        Recipe(**{field: value})


@pytest.mark.parametrize("field", ["seed", "recalibrate", "recalibrate_final"])
@pytest.mark.parametrize("value", [-1, 0.5, "0", True])
def test_a_seed_or_a_number_that_may_be_none_at_all_is_whole_and_from_zero(field, value):
    with pytest.raises(InputError, match=f"{field} must be a whole number of at least 0, got {value!r}"):
        Recipe(**{field: value})


@pytest.mark.parametrize(
    "field", ["lr", "weight_decay", "width", "test_fraction", "outer_lr", "outer_momentum", "ema"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -0.1, "1", True])
def test_a_number_must_be_finite_and_not_negative(field, value):
    with pytest.raises(InputError, match=f"{field} must be a number (above|of at least) 0.*, got {value!r}"):
        Recipe(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lr", 0),
        ("width", 0),
        ("test_fraction", 0),
        ("test_fraction", 1),
        ("outer_lr", 0),
        ("outer_momentum", 1),
        ("ema", 0),
        ("ema", 1),
    ],
)
def test_the_limit_itself_is_refused_where_it_makes_no_sense(field, value):
    with pytest.raises(InputError, match=field):
        Recipe(**{field: value})


def test_no_weight_decay_is_allowed():
    assert Recipe(weight_decay=0).weight_decay == 0


@pytest.mark.parametrize(
    ("field", "value", "nearest"),
    [
        ("momentum", "resset", "reset"),
        ("precision", "float-32", "float32"),
        ("promotion", "averaged", "average"),
    ],
)
def test_an_unknown_word_is_told_its_nearest_neighbour(field, value, nearest):
    with pytest.raises(
        InputError, match=f"{field} must be .* or .*, got '{value}'. Did you mean '{nearest}'"
    ):
        Recipe(**{field: value})


def test_an_unknown_schedule_is_told_its_nearest_neighbour():
    with pytest.raises(InputError, match=r"unknown schedule 'cosin'.*Did you mean 'cosine'"):
        Recipe(schedule="cosin")


def test_a_schedule_may_be_a_function_of_the_generation():
    recipe = Recipe(lr=0.5, schedule=lambda generation: 1 / (1 + generation))
    assert [recipe.lr_at(generation) for generation in range(3)] == [0.5, 0.25, 0.5 / 3]
    assert recipe.to_dict()["schedule"] == "given"


def test_a_schedule_may_be_a_function_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "halving_schedule.py").write_text("def halve(generation):\n    return 0.5**generation\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    recipe = Recipe(lr=8.0, schedule="halving_schedule:halve")
    assert [recipe.lr_at(generation) for generation in range(3)] == [8.0, 4.0, 2.0]
    assert recipe.to_dict()["schedule"] == "halving_schedule:halve"


@pytest.mark.parametrize("factor", [-0.1, float("nan"), float("inf"), "half", None])
def test_a_schedule_that_gives_no_factor_is_refused_with_its_generation(factor):
    recipe = Recipe(schedule=lambda generation: factor)
    with pytest.raises(InputError, match="schedule's factor of generation 7 must be a number of at least 0"):
        recipe.lr_at(7)


def test_a_schedule_that_was_a_function_must_be_given_again():
    stored = Recipe.from_dict(Recipe(schedule=lambda generation: 1.0).to_dict())
    with pytest.raises(InputError, match=r"was a function, which is not stored.*Recipe\(schedule="):
        stored.lr_at(0)


@pytest.mark.parametrize("field", ["dataset", "model", "task", "selection", "optimizer"])
@pytest.mark.parametrize("value", ["", 3])
def test_a_name_must_be_a_word(field, value):
    with pytest.raises(InputError, match=f"{field} must be text.*, got {value!r}"):
        Recipe(**{field: value})


@pytest.mark.parametrize(
    "field",
    [
        "lr",
        "weight_decay",
        "width",
        "seed",
        "threads",
        "schedule",
        "precision",
        "dataset",
        "model",
        "optimizer",
        "promotion",
        "outer_lr",
        "recalibrate",
    ],
)
def test_none_is_refused_where_a_run_could_not_resolve_it(field):
    with pytest.raises(InputError, match=f"{field}.*None"):
        Recipe(**{field: None})


@pytest.mark.parametrize("field", ["augment", "init_from"])
def test_what_must_be_text_is_refused_as_anything_else(field):
    with pytest.raises(InputError, match=field):
        Recipe(**{field: 3})


@pytest.mark.parametrize("field", ["compile", "deterministic", "fold_norm", "outer_nesterov"])
@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_a_switch_is_true_or_false(field, value):
    with pytest.raises(InputError, match=f"{field} must be True or False, got {value!r}"):
        Recipe(**{field: value})


@pytest.mark.parametrize(
    "options", [None, [("nesterov", True)], "nesterov=true", {"momentum": np.float32(0.9)}]
)
@pytest.mark.parametrize("field", ["optimizer_options", "selection_options", "task_options"])
def test_options_must_be_a_mapping_of_plain_values(field, options):
    with pytest.raises(InputError, match=f"{field} must be a mapping of plain values"):
        Recipe(**{field: options})


def test_the_fields_of_gradlex_0_1_0_are_read_into_options():
    old = {
        "selection": "epsilon-lexicase",
        "on_all_fail": None,
        "epsilon": 0.1,
        "epsilon_mode": "static",
        "promotion_depth": 5,
        "case_error": "loss",
        "tournament_size": None,
    }
    recipe = Recipe.from_dict(old)
    assert recipe.selection_options == {"epsilon": 0.1, "epsilon_mode": "static", "depth": 5}
    assert recipe.task_options == {"case_error": "loss"}
    assert Recipe.from_dict({"case_error": "correct", "share": None}) == Recipe(task="classification")


def test_numpys_numbers_become_plain_ones():
    recipe = Recipe(population=np.int64(3), lr=np.float32(0.5))
    assert (type(recipe.population), type(recipe.lr)) == (int, float)
    assert recipe == Recipe(population=3, lr=0.5)


def test_what_is_not_at_its_default_is_what_was_changed():
    assert Recipe().changed() == {}
    assert Recipe(seed=3, selection_options={"depth": 2}).changed() == {
        "seed": 3,
        "selection_options": {"depth": 2},
    }
