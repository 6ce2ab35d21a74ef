"""gradlex soup"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open

from gradlex import Recipe
from gradlex.cli import main
from gradlex.models import build
from gradlex.runs import Execution, Named, start


@pytest.fixture
def archive(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 5)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    path = tmp_path / "data.npz"
    np.savez(path, x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    return path


def test_files_are_mixed_and_the_output_says_who_chose(archive, tmp_path, capsys):
    paths = []
    for seed in range(3):
        torch.manual_seed(seed)
        paths.append(str(tmp_path / f"{seed}.pt"))
        torch.save(build("mlp", num_classes=2, in_channels=5).state_dict(), paths[-1])
    out, plot = tmp_path / "soup.safetensors", tmp_path / "cases.png"
    asked = ["--model", "mlp", "--dataset", str(archive), "--validation-fraction", "0.25", "--device", "cpu"]
    main(["soup", *paths, *asked, "--out", str(out), "--plot", str(plot)])
    printed = " ".join(capsys.readouterr().out.split())
    assert "15 of the 60 test samples" in printed
    assert "45 others report; what chose never reports" in printed
    for method in ("best", "uniform", "greedy", "lexicase", "expected", "cases", "ensemble"):
        assert method in printed
    assert plot.stat().st_size > 1000
    with safe_open(out, framework="pt") as file:
        told = json.loads(file.metadata()["gradlex"])
    assert told["chosen_on"] == "15 validation samples"
    assert [each["path"] for each in told["checkpoints"].values()] == paths


def test_run_folders_bring_their_model_and_data(archive, tmp_path, capsys):
    runs = []
    for seed in range(2):
        runs.append(str(tmp_path / f"run{seed}"))
        recipe = Recipe(
            dataset=str(archive), model="mlp", selection="sgd", generations=2, batch_size=16, seed=seed
        )
        start(Named(), recipe, Execution(device="cpu"), out=runs[-1])
    main(["soup", *runs, "--method", "uniform", "--by-class", "--device", "cpu"])
    printed = capsys.readouterr().out
    assert "12 of the 60 test samples" in printed
    assert "run0 50%, run1 50%" in printed
    main(["soup", *runs, "--validation", str(archive), "--method", "best", "--device", "cpu"])
    assert "all 60 test samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["a.safetensors", "b.safetensors"], "give --model"),
        (["a.safetensors", "b.safetensors", "--model", "mlp"], "give --dataset"),
        (["a.safetensors", "b.safetensors", "--model", "mlp", "--dataset", "digits"], "cannot be read"),
        (["a", "b", "--plot", "cases.pdf"], "must be a .png or .svg"),
        (["a", "b", "--validation-fraction", "2"], "validation_fraction must be"),
    ],
)
def test_what_is_wrong_is_said_with_exit_code_2(words, match, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["soup", *words])
    assert caught.value.code == 2
    assert match in capsys.readouterr().err
