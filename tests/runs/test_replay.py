"""Replay: the settings that a run found, as a schedule that SGD alone follows."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gradlex
from gradlex import InputError, Recipe
from gradlex.cli import main
from gradlex.data import crop_flip
from gradlex.runs import replay_recipe

VARY = {"lr": "0.5|2", "weight_decay": "1e-4|1e-2", "augment": "none|flip"}
VARIED = Recipe(
    population=3,
    generations=6,
    batch_size=8,
    seed=4,
    precision="float32",
    threads=1,
    branch_at=0.34,
    tail="constant",
    vary=VARY,
    inherit_variation=True,
    selection_options={"on_all_fail": "survive"},
)


@pytest.fixture
def varied(images, tiny_cnn, tmp_path):
    return gradlex.train(
        tiny_cnn(), images, VARIED, test=images, augment=crop_flip(1), out=tmp_path / "varied"
    )


def test_every_generation_has_the_winners_settings(varied, tmp_path):
    recipe = replay_recipe(tmp_path / "varied")
    assert (recipe.selection, recipe.generations, recipe.seed) == ("sgd", 6, 4)
    assert [recipe.lr_at(generation) for generation in range(6)] == recipe.timeline["lr"]
    branch = varied.recipe.branch
    assert branch == 2
    for generation, record in enumerate(varied.generations):
        if generation < branch:
            found = {"lr": 1.0, "weight_decay": 1e-4, "augment": None}  # None: that of the run
        else:
            found = record.settings[record.selected]
        assert recipe.timeline["lr"][generation] == pytest.approx(record.lr * found["lr"], rel=1e-12)
        assert recipe.timeline["weight_decay"][generation] == found["weight_decay"]
        assert recipe.timeline["augment"][generation] == found["augment"]
    assert len(set(recipe.timeline["lr"][branch:])) > 1  # something was perturbed


def test_the_replay_is_a_run_of_sgd_along_the_schedule(varied, images, tiny_cnn, tmp_path, same):
    recipe = replay_recipe(tmp_path / "varied")
    replayed = gradlex.train(tiny_cnn(), images, recipe, augment=crop_flip(1), out=tmp_path / "replayed")
    assert [record.lr for record in replayed.generations] == recipe.timeline["lr"]
    assert [len(record.losses) for record in replayed.generations] == [1] * 6
    again = gradlex.train(tiny_cnn(), images, recipe, augment=crop_flip(1))
    assert same(replayed.model.state_dict(), again.model.state_dict())
    for key, other in (("weight_decay", [0.0] * 6), ("augment", ["none"] * 6), ("lr", [0.01] * 6)):
        changed = recipe.replace(timeline={**recipe.timeline, key: other})
        found = gradlex.train(tiny_cnn(), images, changed, augment=crop_flip(1))
        assert not same(replayed.model.state_dict(), found.model.state_dict()), key


def test_what_the_final_model_is_stays_as_it_was(images, tiny_cnn, tmp_path):
    recipe = VARIED.replace(tail_mean=True, ema=0.5, steps_per_generation=3)
    gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run")
    found = replay_recipe(tmp_path / "run")
    assert (found.branch_at, found.tail_mean, found.ema, found.steps_per_generation) == (0.34, True, 0.5, 3)
    run = gradlex.train(tiny_cnn(), images, found)
    assert run.ema is not None
    assert run.result["samples_trained"] == 6 * 3 * 8


def test_a_run_without_variation_has_nothing_to_replay(images, tiny_cnn, small, tmp_path):
    gradlex.train(tiny_cnn(), images, small, out=tmp_path / "run")
    with pytest.raises(InputError, match="has no settings to replay: its candidates did not vary"):
        replay_recipe(tmp_path / "run")


def test_a_run_that_is_not_finished_is_not_replayed(images, tiny_cnn, tmp_path):
    class Stop(gradlex.Callback):
        def on_generation(self, run, record):
            raise gradlex.errors.InterruptedRun(2, "")

    with pytest.raises(gradlex.errors.InterruptedRun):
        gradlex.train(tiny_cnn(), images, VARIED, out=tmp_path / "run", callbacks=[Stop()])
    with pytest.raises(InputError, match="is not finished: resume it first"):
        replay_recipe(tmp_path / "run")
    with pytest.raises(InputError, match="holds no run"):
        replay_recipe(tmp_path / "nowhere")


def test_the_command_replays_a_run(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60, 6, 6), dtype=np.uint8), np.arange(60) % 3
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    words = [
        "train",
        "--dataset",
        str(tmp_path / "mine.npz"),
        "--model",
        "mlp",
        "--width",
        "0.1",
        "--threads",
        "1",
    ]
    words += ["--workers", "1", "--generations", "3", "--batch-size", "10", "--population", "2"]
    vary = ["--vary", "lr=0.5|2", "augment=crop1|none", "--inherit-variation"]
    main([*words, *vary, "--out", str(tmp_path / "varied")])
    main(["replay", str(tmp_path / "varied"), "--out", str(tmp_path / "replayed"), "--seed", "7"])
    capsys.readouterr()
    stored = json.loads((tmp_path / "replayed" / "recipe.json").read_text())["recipe"]
    assert (stored["selection"], stored["seed"], stored["population"]) == ("sgd", 7, 1)
    assert stored["timeline"] == replay_recipe(tmp_path / "varied").timeline
    assert set(stored["timeline"]) == {"lr", "augment"}
    lines = (tmp_path / "replayed" / "generations.jsonl").read_text().splitlines()
    assert [json.loads(line)["lr"] for line in lines] == stored["timeline"]["lr"]
    main([*words, "--out", str(tmp_path / "plain")])
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["replay", str(tmp_path / "plain")])
    assert caught.value.code == 2
    assert "has no settings to replay" in capsys.readouterr().err
