from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap

import pytest

import gradlex
from gradlex import Recipe
from gradlex.cli import _COMMANDS, main


def helped(arguments, capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    return words(capsys.readouterr().out)


def sentences():
    """The sentence under each field of Recipe."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(Recipe))).body
    found = {}
    for field, sentence in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(sentence, ast.Expr):
            found[field.target.id] = " ".join(ast.literal_eval(sentence.value).split())
    return found


def test_every_field_of_the_recipe_is_a_flag_with_its_sentence(capsys, words):
    printed = helped(["train", "--help"], capsys, words)
    told = sentences()
    assert list(told) == [field.name for field in dataclasses.fields(Recipe)]
    for name, sentence in told.items():
        assert re.search(rf" --{name.replace('_', '-')}[ ,]", printed)
        assert sentence in printed


GIVEN = {
    "dataset": "cifar10",
    "model": "resnet18",
    "width": 0.25,
    "selection": "lexicase",
    "population": 6,
    "momentum": "inherit",
    "generations": 11,
    "optimizer": "adamw",
    "lr": 0.02,
    "schedule": "constant",
    "weight_decay": 0.5,
    "batch_size": 9,
    "augment": "crop2,flip",
    "train_size": 77,
    "test_fraction": 0.3,
    "image_size": 24,
    "case_error": "loss",
    "seed": 12,
    "threads": 2,
    "precision": "bfloat16",
    "compile": True,
    "deterministic": True,
    "init_from": "weights.safetensors",
    "recalibrate": 3,
    "recalibrate_final": 20,
    "outer_lr": 0.7,
    "outer_momentum": 0.9,
    "outer_nesterov": True,
    "ema": 0.95,
}
OF_METHODS = {
    "lexicase": {"on_all_fail": "survive", "promotion": "survivors", "promotion_depth": 5},
    "tournament": {"tournament_size": 3, "promotion": "expected", "promotion_cases": 50},
    "epsilon-lexicase": {"epsilon": 0.1, "epsilon_mode": "static"},
    "batch-lexicase": {"case_batch": 8},
    "informed-lexicase": {"share": 0.2, "refresh": 4},
    "dalex": {"sigma": 20.0},
    "plexicase": {"alpha": 2.0},
}


@pytest.mark.parametrize("method", OF_METHODS)
def test_every_flag_reaches_its_field(method, monkeypatch, capsys, as_flags):
    seen = []

    def stop(recipe, **_):
        seen.append(recipe)
        raise gradlex.InputError("far enough")

    monkeypatch.setattr("gradlex.runs.named_problem", stop)
    values = {**GIVEN, "selection": method, **OF_METHODS[method]}
    flags = as_flags(values)
    options = ["--optimizer-options", "betas=[0.8,0.9]", "amsgrad=true"]
    with pytest.raises(SystemExit):
        main(["train", *flags, *options, "--workers", "1", "--out", "nowhere"])
    assert "far enough" in capsys.readouterr().err
    assert seen == [Recipe(**values, optimizer_options={"betas": [0.8, 0.9], "amsgrad": True})]


def test_every_field_is_among_those_that_were_given():
    given = set(GIVEN).union(*OF_METHODS.values())
    assert given | {"optimizer_options"} == {field.name for field in dataclasses.fields(Recipe)}


def test_help_lists_every_command(capsys, words):
    printed = helped(["--help"], capsys, words)
    for command in _COMMANDS:
        assert f" {command} " in printed
    assert helped([], capsys, words) == printed


def test_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"gradlex {gradlex.__version__}\n"


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("models", gradlex.models.MODELS),
        ("datasets", gradlex.data.DATASETS),
        ("selections", gradlex.selection.SELECTIONS),
    ],
)
def test_a_list_has_a_line_for_every_name(command, names, capsys):
    main([command])
    starts = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.split()]
    assert [name for name in names if name not in starts] == []


_LISTS = """
import sys
from gradlex.cli import main
main(["datasets"])
main(["selections"])
try:
    main(["train", "--help"])
finally:
    print("torch" in sys.modules)
"""


def test_help_and_lists_need_no_torch(python):
    done = python("-c", _LISTS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--population" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
