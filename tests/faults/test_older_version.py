"""A run folder as gradlex 0.1.0 wrote it: read and evaluated; an unfinished one is not continued as something else."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch

from gradlex.models import build
from gradlex.runs import evaluate, load_network, stored_run

RECIPE = {
    "dataset": "digits", "train_size": 60, "test_fraction": None, "image_size": None, "augment": "none",
    "model": "mlp", "width": 0.1, "init_from": None, "generations": 2, "batch_size": 32, "optimizer": "sgd",
    "optimizer_options": {}, "lr": 0.1, "schedule": "cosine", "weight_decay": 0.0001, "momentum": "reset",
    "selection": "lexicase", "population": 2, "case_error": "correct", "on_all_fail": "random",
    "tournament_size": None, "epsilon": None, "epsilon_mode": None, "case_batch": None, "share": None,
    "refresh": None, "sigma": None, "alpha": None, "promotion": "winner", "promotion_cases": None,
    "promotion_depth": None, "recalibrate": 0, "recalibrate_final": 0, "outer_lr": 1.0, "outer_momentum": 0.0,
    "outer_nesterov": False, "ema": None, "seed": 0, "threads": 1, "precision": "float32", "compile": False,
    "deterministic": False,
}  # fmt: skip
GENERATIONS = [
    {"generation": 0, "lr": 0.1, "losses": [2.3, 2.2], "selected": 1, "reason": "last_standing", "cases_used": 3,
     "cases_evaluated": 6, "survivors": [[1, [0, 1]], [3, [1]]], "train_seconds": 0.1, "select_seconds": 0.01},
    {"generation": 1, "lr": 0.05, "losses": [2.1, None], "selected": 0, "weights": [1.0, 0.0], "entropy": 0.0,
     "reason": "only_candidate", "cases_used": 0, "cases_evaluated": 0, "survivors": [], "train_seconds": 0.1,
     "select_seconds": 0.0},
]  # fmt: skip
EVALUATIONS = [
    {"generation": 0, "test_accuracy": 0.1, "test_loss": None},
    {"generation": 1, "test_accuracy": 0.15, "test_loss": 2.2},
]
RESULT = {
    "test_accuracy": 0.15, "test_loss": 2.2, "train_accuracy": 0.2, "train_loss": 2.1, "generations": 2,
    "samples_trained": 120, "cases_evaluated": 6, "parameters": 2_000, "seconds": 1.5, "peak_memory": None,
    "gradlex": "0.1.0",
}  # fmt: skip


@pytest.fixture
def run(undisturbed, tmp_path):
    """A finished run of 0.1.0."""
    data = json.loads((undisturbed / "recipe.json").read_text())["data"]
    described = {
        name: value for name, value in data.items() if name not in ("path_from_run", "test_fingerprint")
    }
    folder = tmp_path / "run"
    folder.mkdir()
    stored = {"gradlex": "0.1.0", "recipe": RECIPE, "data": {**described, **_part()}}
    (folder / "recipe.json").write_text(json.dumps(stored))
    (folder / "result.json").write_text(json.dumps(RESULT))
    for name, lines in (("generations", GENERATIONS), ("evaluations", EVALUATIONS)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "environment.json").write_text(json.dumps({"gradlex": "0.1.0", "device": "cpu", "workers": 1}))
    torch.manual_seed(0)
    model = build("mlp", num_classes=10, in_channels=64, width=0.1)
    safetensors.torch.save_file(model.state_dict(), folder / "model.safetensors")
    return folder


def _part():
    """What the digits' part of 60 samples is described by."""
    from dataclasses import asdict

    from gradlex import Recipe
    from gradlex.data import Normalization, load

    arrays = load(Recipe(dataset="digits", train_size=60))
    return {
        "fingerprint": arrays.fingerprint(),
        "train_samples": 60,
        "normalization": asdict(Normalization.of(arrays.x_train)),
    }


def test_it_is_read_in_todays_form(run):
    found = stored_run(run)
    assert found.revision == 1
    assert found.recipe.selection_options == {"on_all_fail": "random"}
    assert found.recipe.task == "classification"
    assert found.recipe.task_options == {}
    assert [record.weights for record in found.generations] == [(0.0, 1.0), (1.0, 0.0)]
    assert found.generations[1].test == {"accuracy": 0.15, "loss": 2.2}
    assert found.generations[0].test["accuracy"] == 0.1
    assert found.result["metrics"] == {
        "test": {"accuracy": 0.15, "loss": 2.2},
        "train": {"accuracy": 0.2, "loss": 2.1},
    }
    assert "test_accuracy" not in found.result
    assert [measure["name"] for measure in found.result["measures"]] == ["accuracy", "loss"]


def test_it_is_evaluated(run, forks):
    metrics = evaluate(run, device="cpu")
    done = forks.run("evaluate", run)
    assert f"test: accuracy {metrics['accuracy']:.2%}, loss {metrics['loss']:.4f}" in done.out
    stored = safetensors.torch.load_file(run / "model.safetensors")
    assert load_network(run).state_dict().keys() == stored.keys()


def test_a_finished_one_is_left_alone_by_resume(run, forks, contents):
    before = contents(run)
    assert (
        "all 2 generations are done: nothing is trained again" in forks.run("resume", run, "--workers", 1).out
    )
    assert contents(run) == before


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_an_unfinished_one_is_refused_with_the_reason(has_checkpoint, run, forks, contents):
    for name in ("result.json", "model.safetensors"):
        (run / name).unlink()
    (run / "generations.jsonl").write_text(f"{json.dumps(GENERATIONS[0])}\n")
    if has_checkpoint:
        folder = run / "checkpoint" / "00000001"  # a folder of three files at the time
        folder.mkdir(parents=True)
        (folder / "progress.json").write_text("{}")
    before = contents(run)
    done = forks.run("resume", run, "--workers", 1, expect=2)
    assert "was begun by an earlier gradlex, which trained on other batches" in done.err
    assert "finish it with gradlex 0.1.0, or start it again in another folder" in done.err
    assert contents(run) == before
    assert stored_run(run).result is None
