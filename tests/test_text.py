"""A name with options in one text, through the names that take one; files that can't be read."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradlex
from gradlex import InputError, Recipe


def options(text: str) -> dict[str, Any]:
    found = Recipe(optimizer=f"adam({text})").optimizer_options()
    return {name: value for name, value in found.items() if name != "weight_decay"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("eps=1e-7", {"eps": 1e-7}),
        ("eps=-1", {"eps": -1}),
        ("amsgrad=true, fused=False, foreach=none", {"amsgrad": True, "fused": False, "foreach": None}),
        ("betas=(0.9, 0.95), eps=1", {"betas": (0.9, 0.95), "eps": 1}),
        ("mode=semi-dynamic", {"mode": "semi-dynamic"}),
        ("mode='a, b=(c)'", {"mode": "a, b=(c)"}),
        ("", {}),
    ],
)
def test_values_are_literals_and_bare_words_are_strings(text: str, found: dict[str, Any]) -> None:
    assert options(text) == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["eps", "betas", "mode"]), VALUES))
def test_options_are_read_back_from_the_text_that_a_recipe_holds(given_options: dict[str, Any]) -> None:
    text = ", ".join(f"{name}={value!r}" for name, value in given_options.items())
    held = Recipe(optimizer=f"adam({text})").optimizer
    assert options(text) == given_options
    assert Recipe(optimizer=held).optimizer == held


@pytest.mark.parametrize(
    "text",
    [
        "adam(eps=1",
        "adam(eps)",
        "adam(1)",
        "adam(eps=1)(eps=2)",
        "adam(eps=1) + adam()",
        "adam(**{'eps': 1})",
        "adam(eps=1, eps=2)",
        "adam(eps=open('x'))",
        "adam(eps=[x for x in 'ab'])",
        "adam(eps=1)\x00",
        "adam(eps=" + "(" * 5000,
    ],
)
def test_anything_but_a_name_with_options_raises_an_error(text: str) -> None:
    with pytest.raises(InputError, match=r"is not of the form NAME or NAME\(OPTION=VALUE, ...\)"):
        Recipe(optimizer=text)


def test_an_error_keeps_long_values_short() -> None:
    with pytest.raises(InputError) as raised:
        Recipe(lr="x" * 10_000)
    assert len(str(raised.value)) < 200
    with pytest.raises(InputError) as raised:
        Recipe(optimizer="x" * 10_000)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "missing"])
def test_a_file_that_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(InputError, match=r"run\.json"):
        gradlex.load(tmp_path)
