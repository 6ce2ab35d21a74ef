"""gradlex train and gradlex evaluate: what they write, print and repeat."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
import safetensors.torch

import gradlex
from gradlex import Recipe
from gradlex.cli import main
from gradlex.cli._train import _new_folder, new_folder_name


def without_seconds(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in lines]


def test_the_command_trains_and_says_so(command_run):
    folder, done = command_run
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads((folder / "result.json").read_text())
    assert f"test: accuracy {result['metrics']['test']['accuracy']:.2%}, loss " in done.stdout
    assert f"clean training samples: accuracy {result['metrics']['train']['accuracy']:.2%}" in done.stdout
    assert str(folder) in done.stdout
    assert re.search(r"1 worker x \d+ threads? on ", done.stdout)
    assert "3 generations in " in done.stdout
    assert result["generations"] == 3
    assert len((folder / "generations.jsonl").read_text().splitlines()) == 3


def test_the_same_seed_writes_the_same_bytes_in_another_process(command_run, quick, tmp_path, capsys):
    first, _ = command_run
    main([*quick, "--seed", "3", "--out", str(tmp_path / "again")])
    again = tmp_path / "again"
    assert (again / "model.safetensors").read_bytes() == (first / "model.safetensors").read_bytes()
    assert (again / "recipe.json").read_bytes() == (first / "recipe.json").read_bytes()
    assert (again / "evaluations.jsonl").read_bytes() == (first / "evaluations.jsonl").read_bytes()
    assert without_seconds(again / "generations.jsonl") == without_seconds(first / "generations.jsonl")

    main([*quick, "--seed", "4", "--out", str(tmp_path / "other")])
    assert (tmp_path / "other" / "model.safetensors").read_bytes() != (
        first / "model.safetensors"
    ).read_bytes()
    capsys.readouterr()


def test_the_stored_recipe_repeats_the_command_without_anything_left_open(
    command_run, tmp_path, capsys, as_flags
):
    folder, _ = command_run
    stored = json.loads((folder / "recipe.json").read_text())
    recipe = Recipe.from_dict(stored["recipe"])
    assert recipe.to_dict() == stored["recipe"]
    assert "auto" not in stored["recipe"].values()
    used = ("population", "momentum", "generations", "batch_size", "augment", "train_size")
    assert [name for name in used if stored["recipe"][name] is None] == []
    assert stored["recipe"]["selection_options"] == {"on_all_fail": "random"}
    assert stored["data"]["train_samples"] == 60
    assert len(stored["data"]["fingerprint"]) == 64
    assert len(stored["data"]["normalization"]["mean"]) == 1

    closed = {name: value for name, value in stored["recipe"].items() if value is not None}
    flags = as_flags(closed)
    main(["train", *flags, "--workers", "1", "--out", str(tmp_path / "again")])
    again = json.loads((tmp_path / "again" / "recipe.json").read_text())
    assert again == stored
    model = tmp_path / "again" / "model.safetensors"
    assert model.read_bytes() == (folder / "model.safetensors").read_bytes()
    capsys.readouterr()


def test_a_run_on_data_without_a_test_part_stores_the_share_that_was_kept(command_run):
    stored = json.loads((command_run[0] / "recipe.json").read_text())
    assert stored["recipe"]["test_fraction"] == 0.2


def test_every_seed_and_method_trains_on_the_same_part(command_run, quick, tmp_path, capsys):
    main([*quick, "--seed", "8", "--selection", "sgd", "--out", str(tmp_path / "other")])
    capsys.readouterr()
    one, other = (
        json.loads((path / "recipe.json").read_text())["data"]
        for path in (command_run[0], tmp_path / "other")
    )
    assert one == other


def test_evaluate_prints_the_accuracy_of_the_result(command_run, capsys):
    folder, _ = command_run
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    main(["evaluate", str(folder)])
    result = json.loads((folder / "result.json").read_text())
    printed = capsys.readouterr().out
    metrics = result["metrics"]["test"]
    assert printed.startswith(f"test: accuracy {metrics['accuracy']:.2%}, loss {metrics['loss']:.4f}")
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_evaluate_takes_the_moving_average_where_it_is_asked_for(
    command_run, quick, tmp_path, capsys, refused
):
    folder = str(tmp_path / "run")
    main([*quick, "--ema", "0.5", "--out", folder])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    capsys.readouterr()
    main(["evaluate", folder, "--ema"])
    printed = capsys.readouterr().out
    average = result["metrics"]["ema"]
    assert f"test: accuracy {average['accuracy']:.2%}, loss {average['loss']:.4f}" in printed
    assert f"loss {result['metrics']['test']['loss']:.4f}" not in printed
    refused(
        ["evaluate", str(command_run[0]), "--ema"], "kept no moving average: train with --ema 0.9 for one"
    )


def archive(path, classes=10, size=8, n=40):
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    x = rng.integers(0, 255, (n, size, size), dtype=np.uint8)
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return str(path)


def test_evaluate_takes_other_data_with_the_runs_own_normalisation(command_run, tmp_path, capsys):
    main(["evaluate", str(command_run[0]), "--dataset", archive(tmp_path / "other.npz")])
    assert "test: accuracy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "told"),
    [({"classes": 4}, "4 classes, the run was trained on 10"), ({"size": 9}, "(1, 9, 9)")],
)
def test_evaluate_refuses_data_of_another_kind(change, told, command_run, tmp_path, refused):
    refused(["evaluate", str(command_run[0]), "--dataset", archive(tmp_path / "other.npz", **change)], told)


def test_evaluate_refuses_a_run_of_given_objects(images, tiny_cnn, small, tmp_path, refused):
    gradlex.train(tiny_cnn(), images, small, out=tmp_path / "run")
    refused(["evaluate", str(tmp_path / "run")], "trained from the library on objects of its own")


def test_evaluate_refuses_a_folder_without_a_run(tmp_path, refused):
    refused(["evaluate", str(tmp_path)], "holds no run")
    refused(["evaluate", str(tmp_path / "nowhere")], "holds no run")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"recipe": {}}', '{"recipe": {"lr": -1}, "data": {}}'])
def test_evaluate_refuses_a_broken_recipe_file(content, tmp_path, refused):
    (tmp_path / "recipe.json").write_text(content)
    refused(["evaluate", str(tmp_path)], "")


def test_init_from_starts_from_those_weights(command_run, quick, tmp_path, capsys):
    weights = command_run[0] / "model.safetensors"
    # A rate too small to move any weight: what comes out is what went in.
    still = ["--lr", "1e-30", "--weight-decay", "0", "--init-from", str(weights)]
    main([*quick, "--seed", "5", *still, "--out", str(tmp_path / "run")])
    capsys.readouterr()
    found = safetensors.torch.load_file(tmp_path / "run" / "model.safetensors")
    given = safetensors.torch.load_file(weights)
    assert all((found[name] == given[name]).all() for name in given)
    main([*quick, "--seed", "5", *still[:4], "--out", str(tmp_path / "fresh")])
    capsys.readouterr()
    assert (tmp_path / "fresh" / "model.safetensors").read_bytes() != weights.read_bytes()


def test_init_from_refuses_other_names_and_shapes_with_what_differs(command_run, quick, tmp_path, refused):
    weights = str(command_run[0] / "model.safetensors")
    refused([*quick, "--width", "0.2", "--init-from", weights], "1.weight has the shape (13, 64)")
    refused(["train", "--model", "small-cnn", "--train-size", "60", "--init-from", weights], "is missing")


def test_without_out_each_run_gets_a_new_folder(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        main([*quick[:-1], "1"])
    capsys.readouterr()
    assert len([path for path in (tmp_path / "runs").iterdir() if (path / "result.json").exists()]) == 2


def test_the_folders_name_tells_runs_apart():
    recipes = [
        Recipe(),
        Recipe(seed=1),
        Recipe(model="mlp"),
        Recipe(model="module:net"),
        Recipe(dataset="some/where/mine.npz"),
        Recipe(selection="random"),
        Recipe(lr=0.05),
        Recipe(population=8, weight_decay=5e-4),
        Recipe(promotion="average"),
    ]
    names = [new_folder_name(recipe) for recipe in recipes]
    assert names[0] == "digits-lexicase-seed0"
    assert names[3:5] == ["digits-module-net-lexicase-seed0", "mine-lexicase-seed0"]
    assert names[6:8] == ["digits-lexicase-lr0.05-seed0", "digits-lexicase-p8-wd0.0005-seed0"]
    assert names[-1] == "digits-lexicase-average-seed0"
    assert len(set(names)) == len(names)


def test_a_seed_of_400_digits_has_a_folder_whose_name_fits():
    first, second = (new_folder_name(Recipe(seed=10**400 + each)) for each in (0, 1))
    assert first != second
    assert len(first) < 255
    huge = dict.fromkeys(["population", "generations", "batch_size", "train_size"], 10**400)
    assert len(new_folder_name(Recipe(**huge, seed=10**400))) < 255


def test_commands_that_start_together_take_different_folders(quick, tmp_path, monkeypatch):
    """The first is in its folder, and has written nothing yet, when the second chooses."""
    monkeypatch.chdir(tmp_path)
    with _new_folder(Recipe()) as first, _new_folder(Recipe()) as second:
        (first / "recipe.json").touch()
        (second / "recipe.json").touch()
        names = [path.name for path in sorted((tmp_path / "runs").iterdir())]
    assert names == ["digits-lexicase-seed0", "digits-lexicase-seed0-2"]


def test_what_is_refused_leaves_no_folder_behind(quick, refused, tmp_path):
    refused([*quick, "--population", "31"], "more than half")
    assert not (tmp_path / "runs").exists()
    (tmp_path / "runs").mkdir()
    refused([*quick, "--population", "31"], "more than half")
    assert list((tmp_path / "runs").iterdir()) == []


def test_resume_takes_data_that_has_moved(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before").mkdir()
    data = archive(tmp_path / "before" / "mine.npz", n=80)
    words = [*quick, "--dataset", data, "--schedule", "constant", "--out", "run"]
    main(words)
    shutil.copytree("run", "whole")
    main([*words[:-1], "whole", "--resume", "--generations", "4"])
    capsys.readouterr()
    stored = json.loads((tmp_path / "run" / "recipe.json").read_text())
    stored["recipe"]["generations"] = 4  # as if it had been interrupted on its way to four
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(stored))
    (tmp_path / "run" / "result.json").unlink()
    (tmp_path / "before").rename(tmp_path / "after")
    with pytest.raises(SystemExit) as caught:
        main(["resume", "run"])
    assert caught.value.code == 2
    assert "--dataset" in capsys.readouterr().err
    main(["resume", "run", "--dataset", "after/mine.npz"])
    capsys.readouterr()
    one, other = (tmp_path / name / "model.safetensors" for name in ("run", "whole"))
    assert one.read_bytes() == other.read_bytes()


def test_optimizer_options_are_keywords(quick, tmp_path, capsys):
    options = ["--optimizer-options", "nesterov=true", "momentum=0.8"]
    main([*quick, *options, "--out", str(tmp_path / "run")])
    capsys.readouterr()
    stored = json.loads((tmp_path / "run" / "recipe.json").read_text())["recipe"]
    assert stored["optimizer_options"] == {"nesterov": True, "momentum": 0.8}


def test_a_run_that_fails_exits_with_one_and_one_sentence(quick, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*quick, "--lr", "1e30", "--batch-size", "4", "--out", str(tmp_path / "run")])
    assert caught.value.code == 1
    printed = capsys.readouterr().err
    assert printed.startswith("gradlex: every candidate of generation 0 diverged")
    assert "1e+30" in printed
    assert not (tmp_path / "run" / "result.json").exists()


OWN = """
import numpy as np

def shift(batch, rng):
    return batch.roll(int(rng.integers(1, 3)), dims=-1)
"""


def test_an_augmentation_of_ones_own_is_named_on_the_command_line(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_augmentation.py").write_text(OWN)
    base = [*quick, "--seed", "3", "--generations", "1"]
    for name, augment in (
        ("plain", "none"),
        ("own", "own_augmentation:shift"),
        ("again", "own_augmentation:shift"),
    ):
        main([*base, "--augment", augment, "--out", name])
    assert (
        json.loads((tmp_path / "own" / "recipe.json").read_text())["recipe"]["augment"]
        == "own_augmentation:shift"
    )
    plain, own, again = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "own", "again")
    )
    assert own == again != plain
