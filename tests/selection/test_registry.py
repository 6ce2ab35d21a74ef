"""Selections by name, as objects with options, as text, and strategies of your own."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gradlex
from gradlex import InputError, RunError
from gradlex.selection import (
    SELECTIONS,
    Choice,
    Dalex,
    DownsampledLexicase,
    EpsilonLexicase,
    Lexicase,
    TableErrors,
    Tournament,
    make_selection,
    select_parents,
)

TABLE = np.array([[3.0, 3, 3], [1, 1, 1], [2, 2, 2]])


def best_mean(cases, errors, rng, *, place: int = 0) -> Choice:
    """The candidate at a place from the best mean; its index is NumPy's."""
    order = np.argsort(errors(cases, errors.candidates).mean(axis=1))
    return Choice(index=errors.candidates[order][place], reason="place", cases_used=len(cases))


OWN = """
from gradlex.selection import Choice

def at_random(cases, errors, rng, *, among: int = 2):
    return Choice(index=int(rng.choice(errors.candidates[:among])), reason="mine")

class Last:
    def __init__(self, back: int = 1):
        self.back = back

    def __call__(self, cases, errors, rng):
        return Choice(index=int(errors.candidates[-self.back]), reason="mine")

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


def choose(select) -> Choice:
    return select(np.arange(3), TableErrors(TABLE), np.random.default_rng(0))


def test_there_are_ten_selections_with_their_papers():
    assert list(SELECTIONS) == [
        "lexicase",
        "epsilon-lexicase",
        "batch-lexicase",
        "downsampled-lexicase",
        "informed-lexicase",
        "dalex",
        "plexicase",
        "tournament",
        "random",
        "sgd",
    ]
    assert all(strategy.paper for strategy in SELECTIONS.values())


@pytest.mark.parametrize(
    "text",
    [
        *SELECTIONS,
        "lexicase(on_all_fail=survive, depth=3)",
        "epsilon-lexicase(epsilon=0.1, mode=static)",
        "epsilon-lexicase(epsilon=(0.1, 0.2))",
        "batch-lexicase(batch_size=2)",
        "informed-lexicase(share=0.5, refresh=3)",
        "dalex(sigma=2.0)",
        "plexicase(alpha=0.5)",
        "tournament(size=3)",
    ],
)
def test_a_text_a_strategy_and_its_text_are_the_same(text):
    select = make_selection(text)
    assert str(select) == text
    assert make_selection(str(select)) == select
    assert make_selection(select) is select
    assert pickle.loads(pickle.dumps(select)) == copy.deepcopy(select) == select
    assert hash(select) == hash(make_selection(str(select)))


def test_options_at_their_default_are_left_out_and_keywords_join_the_text():
    assert str(make_selection("lexicase(depth=none)")) == str(Lexicase(depth=None)) == "lexicase"
    assert make_selection("tournament", size=np.int64(2)) == Tournament(size=2)
    assert make_selection("epsilon-lexicase(epsilon=1)", mode="static") == EpsilonLexicase(epsilon=1, mode="static")
    assert EpsilonLexicase(epsilon=np.array([1, 2.5])) == EpsilonLexicase(epsilon=[1.0, 2.5])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lexicase(on_all_fail="surive"), "'random' or 'survive', got 'surive'.*Did you mean 'survive'"),
        (lambda: Lexicase(depth=0), "depth must be a whole number of at least 1, got 0"),
        (lambda: EpsilonLexicase(epsilon=-1), "epsilon must be a number of at least 0"),
        (lambda: EpsilonLexicase(epsilon=[1, -1]), "one such number for each case"),
        (lambda: EpsilonLexicase(epsilon=float("nan")), "epsilon must be"),
        (lambda: EpsilonLexicase(mode="dynamical"), "Did you mean 'dynamic'"),
        (lambda: DownsampledLexicase(share=1.5), "share must be a number above 0 and at most 1, got 1.5"),
        (lambda: Dalex(sigma=1e308), "sigma must be a number"),
        (lambda: Tournament(size=2.5), "size must be a whole number"),
        (lambda: make_selection("tournament(length=2)"), "has no option 'length': it takes size"),
        (lambda: make_selection("lexicase(depth=)"), "not of the form"),
        (lambda: make_selection("lexicas"), "unknown selection 'lexicas'. Did you mean 'lexicase'"),
        (lambda: make_selection(3), "a function select.cases, errors, rng. that returns a Choice, got 3"),
        (lambda: make_selection(lambda cases: None), "a function select"),
        (lambda: make_selection(best_mean, place=1), "options belong to a name"),
    ],
)
def test_a_bad_option_or_name_is_an_error(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_function_is_a_strategy_called_once_for_each_parent():
    choice = choose(make_selection(best_mean))
    assert choice == Choice(index=1, reason="place", cases_used=3)
    assert type(choice.index) is int
    calls = []

    def remember(cases, errors, rng) -> Choice:
        calls.append(tuple(cases))
        return Choice(index=len(calls) % 3, reason="mine")

    assert select_parents(TABLE, 30, remember, rng=0).tolist() == [i % 3 for i in range(1, 31)]
    assert len(set(calls)) == 6  # every order of three cases


def test_the_text_of_a_function_is_where_it_can_be_imported_from():
    assert str(make_selection(best_mean)) == f"{__name__}:best_mean"
    assert str(make_selection(lambda cases, errors, rng: None)) == "given"


@pytest.mark.usefixtures("own_module")
def test_a_function_or_class_of_the_current_folder_is_a_strategy():
    select = make_selection("own_selection:at_random(among=1)")
    assert str(select) == "own_selection:at_random(among=1)"
    assert {choose(select).index for _ in range(20)} == {0}
    assert set(select_parents(TABLE, 50, "own_selection:at_random", rng=0)) == {0, 1}
    assert set(select_parents(TABLE, 50, "own_selection:at_random", rng=0, among=3)) == {0, 1, 2}
    assert choose(make_selection("own_selection:Last(back=2)")).index == 1
    for text, message in (
        ("own_selection:number", "must name a class or a function"),
        ("own_selection:at_rondom", "Did you mean 'at_random'"),
        ("own_selection:at_random(amnog=1)", "Did you mean 'among'"),
        ("no_such_module:select", "importing no_such_module failed"),
    ):
        with pytest.raises(InputError, match=message):
            make_selection(text)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (1, "returned 1: return a gradlex.selection.Choice"),
        (Choice(index=7, reason="x"), r"chose 7, which is none of"),
        (Choice(index=0, reason="x", weights={0: 0.5, 7: 0.5}), r"candidates' weights must sum to 1"),
        (Choice(index=0, reason="x", weights={0: 2.0, 1: 3.0}), r"candidates' weights must sum to 1"),
    ],
)
def test_a_choice_that_is_none_is_an_error(returned, message):
    with pytest.raises(RunError, match=message):
        choose(make_selection(lambda cases, errors, rng: returned))


def test_public_names_have_docstrings_with_examples():
    selection = gradlex.selection
    public = [name for name, value in vars(selection).items() if name[0] != "_" and not inspect.ismodule(value)]
    assert len(public) <= 25
    described = [name for name in public if name not in ("Indices", "ErrorTable", "SELECTIONS")]
    assert [name for name in described if "Examples:" not in getattr(selection, name).__doc__] == []
