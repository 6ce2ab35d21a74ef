"""What the command says about itself: help, lists, version, and how soon."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
import time

import pytest

import gradlex
from gradlex import Recipe
from gradlex.cli import COMMANDS, main
from gradlex.cli._train import Train
from gradlex.experiments import OFFERED


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
    said = sentences()
    assert list(said) == [field.name for field in dataclasses.fields(Recipe)]
    for name, sentence in said.items():
        assert re.search(rf" --{name.replace('_', '-')}[ ,]", printed), name
        assert sentence.rstrip(".") in printed


def test_every_flag_of_train_is_in_exactly_one_group():
    grouped = [name for names in Train.groups.values() for name in names]
    fields = [f.name for owner in (Recipe, Train) for f in dataclasses.fields(owner) if f.name != "recipe"]
    assert sorted([*grouped, "preset"]) == sorted(fields)  # which comes before all of them
    assert list(Train.groups) == [
        "Data", "Model", "Optimization", "Selection", "Variation", "Promotion", "Execution", "Output"
    ]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_real_defaults_examples_and_fits_80_columns(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    printed = capsys.readouterr().out
    assert "None" not in printed
    assert "default: )" not in printed
    _, *lines = printed.splitlines()  # a terminal wraps the usage itself
    assert max(map(len, lines)) <= 80
    if command in ("train", "compare", "paper"):
        _, _, examples = printed.partition("examples:")
        assert examples.count(f"gradlex {command} ") == 3


def test_defaults_stand_inside_the_sentence(capsys, words):
    printed = helped(["train", "--help"], capsys, words)
    for said in (
        "Population size p (default: 4; 1 for sgd).",
        "Initial learning rate (default: 0.1).",
        "Random seed (default: 0).",
        "--selection-options KEY=VALUE ...",
    ):
        assert said in printed


def test_methods_are_those_that_are_offered(capsys, words):
    for command in ("compare", "paper"):
        assert f"Of {', '.join(OFFERED)} (default" in helped([command, "--help"], capsys, words)


GIVEN = {
    "dataset": "cifar10",
    "target": "price",
    "train_size": 77,
    "test_fraction": 0.3,
    "validation_fraction": 0.15,
    "image_size": 24,
    "augment": "crop2,flip",
    "task": "classification",
    "task_options": {"case_error": "loss"},
    "model": "resnet18",
    "width": 0.25,
    "freeze": "layer1.*,*.bias",
    "init_from": "weights.safetensors",
    "generations": 11,
    "batch_size": 9,
    "optimizer": "adamw",
    "optimizer_options": {"betas": [0.8, 0.9], "amsgrad": True},
    "lr": 0.02,
    "schedule": "step",
    "schedule_options": {"at": [0.3, 6], "factor": 0.2},
    "weight_decay": 0.5,
    "parameter_groups": "no-decay",
    "clip_norm": 1.5,
    "accumulate": 4,
    "momentum": "inherit",
    "branch_at": 0.5,
    "tail": "linear",
    "tail_options": {"hold": 0.25, "lr": 0.3},
    "tail_mean": True,
    "patience": 3,
    "keep": "best",
    "steps_per_generation": 7,
    "parts": "all",
    "vary": {"lr": [0.5, 2.0], "augment": ["crop4,flip", "none"]},
    "inherit_variation": True,
    "cases": "held-out",
    "held_out": 0.2,
    "selection": "epsilon-lexicase",
    "selection_options": {"epsilon": 0.1, "epsilon_mode": "static"},
    "population": 6,
    "promotion": "expected",
    "promotion_cases": 50,
    "recalibrate": 3,
    "recalibrate_final": 20,
    "outer_lr": 0.7,
    "outer_momentum": 0.9,
    "outer_nesterov": True,
    "ema": 0.95,
    "seed": 12,
    "threads": 2,
    "precision": "bfloat16",
    "compile": True,
    "compile_options": {"mode": "reduce-overhead", "fullgraph": True},
    "fold_norm": True,
    "deterministic": True,
}


def test_every_flag_reaches_its_field(monkeypatch, capsys, as_flags):
    seen = []

    def stop(source, recipe, execution, **how):
        seen.append((source, recipe, execution, how))
        raise gradlex.InputError("far enough")

    monkeypatch.setattr("gradlex.runs.start", stop)
    how = ["--workers", "3", "--device", "cpu", "--evaluate-every", "5", "--checkpoint-every", "2"]
    where = ["--placement", "offload", "--out", "nowhere", "--resume", "--data-dir", "there"]
    with pytest.raises(SystemExit):
        main(["train", *as_flags(GIVEN), *how, *where])
    assert "far enough" in capsys.readouterr().err
    ((source, recipe, execution, rest),) = seen
    assert recipe == Recipe(**GIVEN)
    assert (execution.workers, execution.device) == (3, "cpu")
    assert (execution.evaluate_every, execution.checkpoint_every) == (5, 2)
    assert (execution.placement, str(rest["out"]), rest["resume"]) == ("offload", "nowhere", True)
    assert str(source.data_dir) == "there"


def test_a_timeline_is_given_as_lists(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(
        "gradlex.runs.start", lambda source, recipe, *_, **__: seen.append(recipe) or sys.exit(3)
    )
    words = [
        "--generations",
        "2",
        "--timeline",
        "lr=[0.1,0.05]",
        'augment=["none","crop4"]',
        "--out",
        "nowhere",
    ]
    with pytest.raises(SystemExit):
        main(["train", *words])
    assert [recipe.timeline for recipe in seen] == [{"lr": [0.1, 0.05], "augment": ["none", "crop4"]}]


def test_every_field_is_among_those_that_were_given():
    others = {"timeline"}  # which takes the place of vary, and has a test of its own
    assert set(GIVEN) | others == {field.name for field in dataclasses.fields(Recipe)}
    defaults = Recipe().to_dict()
    assert [name for name in GIVEN if name != "task" and GIVEN[name] == defaults[name]] == []


def test_help_lists_every_command(capsys):
    main(["--help"])
    printed = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^  {command} +[A-Z]", printed, re.MULTILINE)
    main([])
    assert capsys.readouterr().out == printed


def test_version_is_the_packages(capsys):
    main(["--version"])
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


QUICKLY = [
    ["--help"],
    ["models"],
    ["datasets"],
    ["selections"],
    ["train", "--help"],
    ["compare", "--help"],
    ["train", "--populaton", "4"],
    ["train", "--lr", "nan"],
    ["train", "--selection", "lexicse"],
    ["train", "--dataset", "digit"],
    ["train", "--model", "resnet19"],
    ["compare", "--methods", "lexicas"],
    ["compare", "--jobs", "0"],
    ["paper", "table5"],
    ["trian"],
]
HEAVY = ("torch", "scipy", "sklearn", "matplotlib", "torchvision", "plotly", "pandas")
_SCRIPT = f"""
import sys
from gradlex.cli import main
for words in {QUICKLY!r}:
    try:
        main(words)
    except SystemExit:
        pass
print([name for name in {HEAVY!r} if name in sys.modules])
"""


def test_help_lists_and_refusals_import_nothing_heavy(python):
    done = python("-c", _SCRIPT)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]")


def test_a_wrong_flag_is_answered_at_once(capsys):
    started = time.process_time()
    with pytest.raises(SystemExit):
        main(["train", "--populaton", "4"])
    assert time.process_time() - started < 1
    assert "--population" in capsys.readouterr().err
