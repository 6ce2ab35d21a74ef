"""Strategies of one's own: a function or `module:function`, its options from its signature."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from annotated_types import Ge

from gradlex.errors import InputError, RunError
from gradlex.selection import SELECTIONS, Choice, TableErrors, bind, find, select_parents, selection_chances

TABLE = np.array([[3.0, 3, 3], [1, 1, 1], [2, 2, 2]])


def by_place(
    cases, errors, rng, *, place: Annotated[int, Ge(0)] = 0, end: Literal["best", "worst"] = "best"
) -> Choice:
    """The candidate at a place from the best or the worst mean."""
    order = np.argsort(errors(cases, errors.candidates).mean(axis=1))
    ranked = errors.candidates[order if end == "best" else order[::-1]]
    return Choice(index=ranked[place], reason="place", cases_used=len(cases))


def needs_a_place(cases, errors, rng, *, place: int) -> Choice:
    return Choice(index=place, reason="place")


OWN = """
import numpy as np
from gradlex.selection import Choice

def at_random(cases, errors, rng, *, among: int = 2):
    return Choice(index=int(rng.choice(errors.candidates[:among])), reason="mine")

number = 3
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module `own_selection` in a fresh current folder."""
    (tmp_path / "own_selection.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.modules.pop("own_selection", None)


def choose(select, **errors) -> Choice:
    return select(np.arange(3), TableErrors(TABLE, **errors), np.random.default_rng(0))


def test_a_function_is_a_method_with_the_defaults_of_its_signature():
    assert choose(bind(by_place)) == Choice(index=1, reason="place", cases_used=3)
    assert choose(bind(by_place, place=1)).index == 2
    assert choose(bind(by_place, end="worst"), candidates=[1, 2]).index == 2
    assert isinstance(choose(bind(by_place)).index, int)


@pytest.mark.usefixtures("own_module")
def test_a_module_and_function_of_the_current_folder_is_a_method():
    rng = np.random.default_rng(0)
    select = bind("own_selection:at_random", among=1)
    assert {select(np.arange(3), TableErrors(TABLE), rng).index for _ in range(20)} == {0}
    assert set(select_parents(TABLE, 50, "own_selection:at_random", rng=0)) == {0, 1}
    assert set(select_parents(TABLE, 50, "own_selection:at_random", rng=0, among=3)) == {0, 1, 2}


@pytest.mark.usefixtures("own_module")
def test_a_method_says_what_it_is():
    info = find("own_selection:at_random")
    assert (info.name, info.own, info.asks, info.exact) == ("own_selection:at_random", True, True, False)
    assert (dict(info.options), info.sees) == ({"among": 2}, "whatever it asks")
    assert find(by_place).name.endswith(":by_place")
    assert dict(find(by_place).options) == {"place": 0, "end": "best"}
    assert find("lexicase") is SELECTIONS["lexicase"]
    assert [name for name, info in SELECTIONS.items() if not info.asks] == ["random", "sgd"]


def test_parents_are_drawn_by_calling_it_once_for_each():
    calls = []

    def remember(cases, errors, rng) -> Choice:
        calls.append(tuple(cases))
        return Choice(index=len(calls) % 3, reason="mine")

    assert select_parents(TABLE, 30, remember, rng=0).tolist() == [i % 3 for i in range(1, 31)]
    assert len(set(calls)) == 6  # every order of three cases
    assert select_parents(TABLE, 4, by_place, place=2).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"place": -1}, "place must be a whole number of at least 0, got -1"),
        ({"end": "bset"}, r"end must be 'best' or 'worst', got 'bset'\. Did you mean 'best'"),
        ({"plaec": 1}, r":by_place' has no option 'plaec': it takes place, end\. Did you mean 'place'"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    for enter in (lambda: bind(by_place, **options), lambda: select_parents(TABLE, 3, by_place, **options)):
        with pytest.raises(InputError, match=message):
            enter()


def test_an_option_without_a_default_must_be_given():
    with pytest.raises(InputError, match="needs the option 'place'"):
        bind(needs_a_place)
    assert choose(bind(needs_a_place, place=2)).index == 2


def test_annotations_that_cannot_be_read_are_refused_with_the_cure():
    def strategy(cases, errors, rng, *, place: Absent = 0):  # noqa: F821
        return Choice(index=place, reason="place")

    with pytest.raises(InputError, match=r"annotations cannot be read: name 'Absent' is not defined.*Import"):
        bind(strategy)


def test_it_has_no_exact_chances():
    with pytest.raises(InputError, match=r":by_place' has no exact or closed form.*select_parents"):
        selection_chances(TABLE, method=by_place)


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("own_selection:at_rndom", r"has no 'at_rndom'\. Did you mean 'at_random'\?.*returns a .*Choice"),
        ("own_selection:number", r"'own_selection:number' is 3: give a function select\(cases, errors, rng"),
        ("absent_selection:f", "selection 'absent_selection:f': there is no module 'absent_selection'"),
        (3, "is 3: give a function"),
        (bind("lexicase"), "give a function select"),
    ],
)
def test_what_is_no_strategy_is_refused(method, message):
    with pytest.raises(InputError, match=message):
        bind(method)


def options_before_the_star(cases, errors, rng, place=0) -> Choice:
    return Choice(index=place, reason="place")


def too_few(cases, errors) -> Choice:
    return Choice(index=0, reason="place")


@pytest.mark.parametrize("strategy", [options_before_the_star, too_few])
def test_a_signature_that_cannot_be_called_is_refused(strategy):
    with pytest.raises(InputError, match=r"it must take cases, errors and rng, and its options behind a \*"):
        bind(strategy)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (1, r"returned 1: return a gradlex\.selection\.Choice"),
        (Choice(index=0, reason="mine"), r"chose 0, which is none of the candidates \[1, 2\]"),
    ],
)
def test_what_it_returns_must_be_the_choice_of_a_candidate(returned, message):
    def strategy(cases, errors, rng):
        return returned

    with pytest.raises(RunError, match=message):
        choose(bind(strategy), candidates=[1, 2])
