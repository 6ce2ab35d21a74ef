"""Presets: recipes that have a name; what is stored is their fields."""

from __future__ import annotations

import dataclasses
import json
from typing import get_args

import pytest

import gradlex
from gradlex import InputError, Recipe
from gradlex.cli import main
from gradlex.presets import PRESETS, Name


def test_the_papers_preset_is_the_default_of_today():
    assert Recipe.preset("paper") == Recipe(selection="lexicase")
    assert "lexicase" in PRESETS["paper"].fields.values()


def test_the_branched_one_is_a_mean_of_several_from_three_quarters_on():
    assert Recipe.preset("branched").changed() == {
        "branch_at": 0.75,
        "tail": "constant",
        "tail_options": {"factor": 7},
        "tail_mean": True,
        "promotion": "average",
        "momentum": "inherit",
    }


def test_changes_go_before_the_presets_values():
    recipe = Recipe.preset("branched", promotion="winner", tail_mean=False, lr=0.2)
    assert recipe.changed() == {
        "branch_at": 0.75,
        "tail": "constant",
        "tail_options": {"factor": 7},
        "momentum": "inherit",
        "lr": 0.2,
    }
    with pytest.raises(InputError, match="branch_at must be a number"):
        Recipe.preset("branched", branch_at=2)


def test_an_unknown_preset_is_told_its_nearest_neighbour():
    with pytest.raises(InputError, match=r"unknown preset 'branchd'.*Did you mean 'branched'"):
        Recipe.preset("branchd")


def test_every_preset_has_a_name_a_sentence_and_fields_of_the_recipe():
    assert tuple(PRESETS) == get_args(Name)
    known = {field.name for field in dataclasses.fields(Recipe)}
    for preset in PRESETS.values():
        assert preset.sentence
        assert set(preset.fields) <= known


def recipe_of(words, monkeypatch):
    seen = []

    def stop(source, recipe, *_, **__):
        seen.append(recipe)
        raise InputError("far enough")

    monkeypatch.setattr("gradlex.runs.start", stop)
    with pytest.raises(SystemExit) as caught:
        main(["train", *words, "--out", "nowhere"])
    assert caught.value.code == 2
    (recipe,) = seen
    return recipe


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ([], {}),
        (["--preset", "paper"], {"selection": "lexicase"}),
        (["--preset", "branched"], Recipe.preset("branched").changed()),
        (["--preset=branched", "--lr", "0.2"], Recipe.preset("branched", lr=0.2).changed()),
        # What is given goes before the preset, even where it is the default, and wherever it stands.
        (
            ["--promotion", "winner", "--preset", "branched"],
            Recipe.preset("branched", promotion="winner").changed(),
        ),
        (["--preset", "branched", "--no-tail-mean"], Recipe.preset("branched", tail_mean=False).changed()),
        (["--preset", "branched", "--tail-mean"], Recipe.preset("branched").changed()),
        (
            ["--preset", "branched", "--selection", "sgd"],
            Recipe.preset("branched", selection="sgd").changed(),
        ),
        (
            ["--preset", "branched", "--tail", "linear", "--tail-options", "hold=0.25"],
            Recipe.preset("branched", tail="linear", tail_options={"hold": 0.25}).changed(),
        ),
    ],
)
def test_the_command_takes_a_preset_and_flags_go_before_it(words, changed, monkeypatch, capsys):
    assert recipe_of(words, monkeypatch).changed() == changed
    capsys.readouterr()


def test_the_help_lists_them_and_a_wrong_one_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    printed = capsys.readouterr().out
    assert "--preset paper|branched" in printed
    assert all(f"{name} (" in " ".join(printed.split()) for name in PRESETS)
    with pytest.raises(SystemExit) as caught:
        main(["train", "--preset", "branchd", "--out", "nowhere"])
    assert caught.value.code == 2
    assert "Did you mean 'branched'" in capsys.readouterr().err


def test_what_is_stored_is_the_fields(quick, tmp_path, capsys):
    main([*quick, "--preset", "branched", "--out", str(tmp_path / "run")])
    capsys.readouterr()
    stored = json.loads((tmp_path / "run" / "recipe.json").read_text())["recipe"]
    assert "preset" not in stored
    assert (stored["branch_at"], stored["tail"], stored["tail_mean"]) == (0.75, "constant", True)
    assert stored["promotion"] == "average"
    assert Recipe.from_dict(stored).to_dict() == stored


def test_presets_are_public_and_free_of_torch(python):
    done = python("-c", "import sys, gradlex; print(list(gradlex.presets.PRESETS), 'torch' in sys.modules)")
    assert done.stdout.strip() == f"{list(gradlex.presets.PRESETS)} False"
