from __future__ import annotations

import pickle

import numpy as np
import pytest

from gradlex.errors import InputError
from gradlex.selection import SELECTIONS, TableErrors, bind, select_parents

OPTIONS = {
    "lexicase": {"on_all_fail": "random", "depth": None},
    "epsilon-lexicase": {"epsilon": None, "epsilon_mode": "semi-dynamic"},
    "batch-lexicase": {"case_batch": 32},
    "downsampled-lexicase": {"share": 0.1, "on_all_fail": "random", "depth": None},
    "informed-lexicase": {"share": 0.1, "refresh": 10, "on_all_fail": "random", "depth": None},
    "dalex": {"sigma": 200.0},
    "plexicase": {"alpha": 1.0},
    "tournament": {"tournament_size": None},
    "random": {},
    "sgd": {},
}


def test_the_options_and_their_defaults_are_those_of_the_signatures():
    # Keywords with a leading underscore, such as how many cases are evaluated at first, are no options.
    assert {name: dict(info.options) for name, info in SELECTIONS.items()} == OPTIONS


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_defaults_are_allowed(name):
    bind(name, **SELECTIONS[name].options)


BAD = {
    "on_all_fail": ["all", None, 1, ["random"]],
    "tournament_size": [0, -2, 2.0, True, "3"],
    "epsilon": [-0.1, np.nan, np.inf, "mad", True],
    "epsilon_mode": ["Static", None, 2],
    "case_batch": [0, 1.5, None, True],
    "share": [0, 0.0, 1.01, -1, np.nan, None, "half", True],
    "refresh": [0, 2.5, None],
    "sigma": [-1, np.inf, None],
    "alpha": [-0.5, np.nan, "1", np.ones(2)],
    "depth": [0, 2.5, True, "all"],
}


def test_every_option_has_bad_values():
    assert set(BAD) == {option for info in SELECTIONS.values() for option in info.options}


@pytest.mark.parametrize(
    ("option", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_bad_value_is_refused_with_what_was_given_and_what_is_allowed(option, value):
    takers = [info.name for info in SELECTIONS.values() if option in info.options]
    assert takers
    for name in takers:
        for enter in (
            lambda name=name: bind(name, **{option: value}),
            lambda name=name: select_parents(np.eye(3), 3, name, **{option: value}),
        ):
            with pytest.raises(InputError, match=option) as refused:
                enter()
            assert repr(value) in str(refused.value)
            assert f"{option} must be " in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("share", 1),
        ("share", np.float32(0.5)),
        ("refresh", np.int64(3)),
        ("epsilon", 0),
        ("sigma", 0),
        ("alpha", 0),
    ],
)
def test_whole_and_numpy_numbers_are_numbers(option, value):
    for info in SELECTIONS.values():
        if option in info.options:
            bind(info.name, **{option: value})


def test_an_option_of_another_method_is_refused():
    with pytest.raises(InputError, match=r"'lexicase' has no option 'share': it takes on_all_fail, depth"):
        bind("lexicase", share=0.5)
    with pytest.raises(InputError, match="it takes none"):
        select_parents(np.eye(3), 3, "random", sigma=1.0)
    with pytest.raises(InputError, match="no option '_first_slice'"):
        bind("lexicase", _first_slice=3)


def test_an_unknown_method_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match="Did you mean 'epsilon-lexicase'"):
        bind("epsilon_lexicase")


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_bound_strategy_can_be_sent_to_another_process(name):
    table = np.eye(3)
    select = bind(name)
    again = pickle.loads(pickle.dumps(select))
    one, two = (s(np.arange(3), TableErrors(table), np.random.default_rng(0)) for s in (select, again))
    assert one.index == two.index
