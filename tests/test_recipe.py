"""Recipe: its fields, its combinations, its stored form and its help."""

import copy
import itertools
import json
import pickle
import pydoc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex import InputError, Recipe
from gradlex.selection import EpsilonLexicase

FIELDS = list(Recipe().to_dict())
NAN, INFINITE = float("nan"), float("inf")


def test_a_recipe_has_at_most_thirty_fields_and_help_documents_each() -> None:
    assert len(FIELDS) <= 30
    text = pydoc.render_doc(Recipe, renderer=pydoc.plaintext)
    for name in FIELDS:
        line = next(line for line in text.splitlines() if line.strip(" |").startswith(f"{name}: "))
        assert len(line.partition(": ")[2]) > 10 or name in ("weight_decay", "seed")


# Bad values, field by field

BAD: dict[str, list[Any]] = {
    "a whole number of at least 1": [0, -1, 1.5, True, "4", NAN, [4]],
    "a whole number of at least 0": [-1, 0.5, "0", True, None],
    "a number above 0": [0, -0.1, "1", True, NAN, INFINITE],
    "a number of at least 0": [-0.1, "1", True, NAN, INFINITE, None],
    "a number of at least 0 and below 1": [1, -0.1, "0", NAN, None],
    "a number above 0 and below 1": [0, 1, -0.2, "half", NAN],
    "text": [3, ["a"], b"a"],
    "True or False": [None, 1, "yes"],
}
KINDS = {
    "a whole number of at least 1": "train_size image_size epochs batch_size population patience",
    "a whole number of at least 0": "seed recalibrate",
    "a number above 0": "lr",
    "a number of at least 0": "weight_decay",
    "a number of at least 0 and below 1": "momentum branch_at",
    "a number above 0 and below 1": "test_fraction validation_fraction",
    "text": "dataset target augment task model init_from optimizer tail",
    "True or False": "tail_mean",
}


@pytest.mark.parametrize(
    ("field", "words", "value"),
    [(field, words, bad) for words, fields in KINDS.items() for field in fields.split() for bad in BAD[words]],
)
def test_a_bad_value_raises_an_error_that_says_what_is_allowed(field: str, words: str, value: Any) -> None:
    with pytest.raises(InputError) as raised:
        Recipe(**{field: value})
    assert str(raised.value).startswith(f"{field} must be {words}, got {value!r}.")


@pytest.mark.parametrize("field", ["dataset", "model", "optimizer", "schedule", "promotion", "precision"])
def test_none_is_not_allowed_where_no_default_stands_for_it(field: str) -> None:
    with pytest.raises(InputError, match=f"{field} must be .*, got None"):
        Recipe(**{field: None})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"generations": 3}, "unknown recipe field 'generations'. Did you mean 'epochs'"),
        ({"learning_rate": 0.1}, "Did you mean 'lr'"),
        ({"random_state": 0}, "Did you mean 'seed'"),
        ({"populaton": 4}, "Did you mean 'population'"),
        ({"clip_norm": 1}, "unknown recipe field 'clip_norm'"),
        ({"momentum": "reset"}, "got 'reset': set momentum_state='reset'"),
        ({"momentum": "none"}, "got 'none': set momentum=0"),
        ({"momentum_state": "none"}, "momentum_state must be 'reset' or 'inherit', got 'none'"),
        ({"promotion": "averaged"}, "'winner', 'average' or 'expected', got 'averaged'. Did you mean 'average'"),
        ({"precision": "float-32"}, "Did you mean 'float32'"),
        ({"optimizer": "adm"}, "unknown optimizer 'adm'. Did you mean 'adam'"),
        ({"optimizer": "sgd(lr=0.2)"}, "sets lr: use the recipe's field lr"),
        ({"optimizer": "sgd(momentum=0.2)"}, "sets momentum: use the recipe's field momentum"),
        ({"optimizer": "adam(weight_decay=1)"}, "sets weight_decay: use the recipe's field"),
        ({"optimizer": "adamw(betas=(0.9, 0.95)"}, "is not of the form NAME"),
        ({"optimizer": "adam", "momentum": 0.5}, "momentum=0.5 is for sgd: write an option"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin'. Did you mean 'cosine'"),
        ({"schedule": "cosine(warmpu=3)"}, "no option 'warmpu': it takes warmup. Did you mean 'warmup'"),
        ({"schedule": "linear(warmup=-1)"}, "warmup must be a number of at least 0, got -1"),
        ({"schedule": "cosine(warmup=-1)"}, "warmup must be a number of at least 0, got -1"),
        ({"schedule": 3}, "schedule must be text or a function"),
        ({"tail": "constant"}, "tail needs a run that branches: set branch_at"),
        ({"tail_mean": True}, "tail_mean needs a run that branches"),
        ({"tail": "constant(factor=0)", "branch_at": 0.5}, "factor must be a number above 0, got 0"),
        ({"tail": "constant(lr=0)", "branch_at": 0.5}, "lr must be a number above 0, got 0"),
        ({"tail": "cyclic", "branch_at": 0.5}, "unknown tail 'cyclic'"),
        ({"selection": 3}, "selection must be text, a strategy or a function, got 3."),
        ({"selection": "sgd", "population": 4}, "trains one network, got population 4"),
        ({"selection": "sgd", "momentum_state": "reset"}, "keeps its optimizer state"),
        ({"selection": "lexicase(depth=5"}, "is not of the form NAME"),
    ],
)
def test_a_bad_name_or_combination_raises_an_error_with_the_cure(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Recipe(**fields)


def test_a_hint_has_to_be_near() -> None:
    with pytest.raises(InputError) as raised:
        Recipe(optimizer="lion")
    assert "Did you mean" not in str(raised.value)


# What a field means


@pytest.mark.parametrize(("optimizer", "lr"), [("sgd", 0.1), ("adam", 0.001), ("adamw(eps=1e-7)", 0.001)])
def test_each_optimizer_has_a_learning_rate_that_suits_it(optimizer: str, lr: float) -> None:
    recipe = Recipe(optimizer=optimizer, epochs=4)
    assert recipe.lr_at(0) == recipe.with_method().lr == lr
    assert Recipe(optimizer=optimizer, epochs=4, lr=0.5).lr_at(0) == 0.5
    assert Recipe.preset("paper", optimizer=optimizer, epochs=4).lr_at(0) == lr


def test_the_options_of_an_optimizer_are_keywords_of_its_class() -> None:
    assert Recipe(momentum=0.5).optimizer_options() == {"weight_decay": 1e-4, "momentum": 0.5}
    adamw = Recipe(optimizer="adamw(betas=(0.9, 0.95))", weight_decay=0)
    assert adamw.optimizer_options() == {"weight_decay": 0, "betas": (0.9, 0.95)}


def test_a_baseline_is_one_network_that_keeps_its_momentum() -> None:
    recipe = Recipe(selection="sgd").with_method()
    assert (recipe.population, recipe.momentum_state, recipe.is_baseline) == (1, "inherit", True)
    recipe = Recipe().with_method("epsilon-lexicase")
    assert (recipe.population, recipe.momentum_state, recipe.is_baseline) == (4, "reset", False)
    assert recipe.selection == "epsilon-lexicase"
    assert Recipe(selection="random").with_method().selection == "random"


def test_a_run_branches_into_its_population_late() -> None:
    recipe = Recipe.preset("branched", epochs=8, population=3, lr=0.1)
    assert [recipe.population_at(generation) for generation in range(8)] == [1] * 6 + [3] * 2
    steady = recipe.lr_at(6)
    assert recipe.lr_at(7) == steady == pytest.approx(7 * Recipe(epochs=8).lr_at(6))
    assert Recipe(branch_at=0.99, epochs=4).branch == 3


def test_a_preset_can_be_changed() -> None:
    assert Recipe.preset("paper", selection="sgd").weight_decay == 1e-4
    with pytest.raises(InputError, match=r"unknown preset 'papre'\. Did you mean 'paper'"):
        Recipe.preset("papre")


def test_a_recipe_without_epochs_says_that_they_are_missing() -> None:
    with pytest.raises(InputError, match=r"leaves its number of epochs open: set Recipe\(epochs=...\)"):
        Recipe().lr_at(0)


# Copies and the stored form


def test_a_recipe_is_changed_only_by_replacing_it() -> None:
    recipe = Recipe(epochs=4)
    with pytest.raises(Exception, match="frozen"):
        recipe.lr = 1.0
    assert recipe.replace(lr=1.0) == Recipe(epochs=4, lr=1.0)
    assert recipe.lr is None
    with pytest.raises(InputError, match="lr must be a number above 0, got -1"):
        recipe.replace(lr=-1)


def test_a_recipe_shares_nothing_with_what_it_came_from_or_was_stored_as() -> None:
    stored = Recipe(epochs=4, optimizer="adam(betas=(0.9, 0.95))").to_dict()
    recipe = Recipe(**stored)
    recipe.optimizer_options()["betas"] = None
    recipe.to_dict()["epochs"] = stored["epochs"] = 9
    assert recipe == Recipe(epochs=4, optimizer="adam(betas=(0.9, 0.95))")


def test_numpys_numbers_become_plain_ones_and_equal_texts_one_spelling() -> None:
    recipe = Recipe(population=np.int64(3), lr=np.float64(0.5), optimizer="adamw( betas = [0.9,0.95] )")
    assert (type(recipe.population), type(recipe.lr)) == (int, float)
    assert recipe == Recipe(population=3, lr=0.5, optimizer="adamw(betas=[0.9, 0.95])")
    assert hash(recipe) == hash(recipe.replace())


@settings(deadline=None)
@given(
    st.builds(
        Recipe,
        population=st.none() | st.integers(1, 99),
        epochs=st.none() | st.integers(1, 10**6),
        lr=st.none() | st.floats(1e-9, 1e9),
        momentum=st.floats(0, 1, exclude_max=True),
        seed=st.integers(0, 2**128),
        schedule=st.sampled_from(["cosine", "linear(warmup=0.1)", "mycode:schedule"]),
        selection=st.sampled_from([None, "epsilon-lexicase(epsilon=0.1)", EpsilonLexicase(epsilon=0.1)]),
        branch_at=st.floats(0, 1, exclude_max=True),
    )
)
def test_a_recipe_comes_back_from_json_as_it_was(recipe: Recipe) -> None:
    text = recipe if not isinstance(recipe.selection, EpsilonLexicase) else recipe.replace(
        selection="epsilon-lexicase(epsilon=0.1)"
    )  # fmt: skip
    assert Recipe(**json.loads(json.dumps(recipe.to_dict()))) == text
    assert pickle.loads(pickle.dumps(recipe)) == copy.deepcopy(recipe) == recipe


def test_objects_that_no_text_can_hold_are_stored_as_given() -> None:
    recipe = Recipe(epochs=3, lr=0.5, schedule=lambda generation, epochs: 1 / (1 + generation), selection=max)
    assert [recipe.lr_at(generation) for generation in range(3)] == [0.5, 0.25, 0.5 / 3]
    stored = recipe.to_dict()
    assert (stored["schedule"], stored["selection"]) == ("given", "given")
    with pytest.raises(InputError, match="the schedule was a function, which isn't stored: give it again"):
        Recipe(**stored).lr_at(0)


@pytest.mark.parametrize("factor", [-0.1, NAN, INFINITE])
def test_a_schedule_that_returns_no_factor_raises_an_error(factor: float) -> None:
    with pytest.raises(InputError, match=r"the schedule returned .* for generation 3, not a factor"):
        Recipe(epochs=4, schedule=lambda generation, epochs: factor).lr_at(2)


def test_learning_rates_never_rise_without_a_warm_up() -> None:
    for schedule, epochs in itertools.product(["cosine", "linear"], [1, 2, 7]):
        recipe = Recipe(schedule=schedule, epochs=epochs)
        rates = [recipe.lr_at(generation) for generation in range(epochs)]
        assert rates[0] == 0.1
        assert all(one > other > 0 for one, other in itertools.pairwise(rates))
