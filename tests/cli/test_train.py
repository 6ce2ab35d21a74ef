from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

import gradlex as library

Command = Any
Trained = tuple[Path, Any]
SMALL = ("--train-size", "120", "--population", "2", "--epochs", "3", "--model", "mlp")


def recipe_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())["recipe"]  # type: ignore[no-any-return]


def test_train_prints_the_run_and_what_it_reached(trained: Trained) -> None:
    folder, found = trained
    assert found.code == 0
    lines = found.out.splitlines()
    assert lines[0] == "lexicase with 2 candidates: mlp on digits, 120 samples"
    assert lines[3] == "Folder: runs/digits-lexicase-seed3"
    assert [line.split()[0] for line in lines if "/3 " in line] == ["1/3", "2/3", "3/3"]
    accuracy = json.loads((folder / "result.json").read_text())["metrics"]["test"]["accuracy"]
    (test,) = (line for line in lines if line.startswith("test "))
    assert f"accuracy {accuracy:.1%}" in test
    assert re.search(r"^3 generations in [\d.]+ s$", found.out, re.MULTILINE)
    assert lines[-1] == "Next: gradlex report runs/digits-lexicase-seed3"


def test_what_train_prints_fits_80_columns(trained: Trained) -> None:
    assert max(map(len, trained[1].out.splitlines())) <= 80


def test_per_cent_has_one_digit_and_no_space(trained: Trained) -> None:
    assert re.findall(r"\S*\s?%", trained[1].out)
    assert all(re.fullmatch(r"\d+\.\d%", each) for each in re.findall(r"\S*\s?%", trained[1].out))


def test_a_second_run_gets_a_folder_of_its_own(gradlex: Command, tmp_path: Path) -> None:
    for _ in range(2):
        assert gradlex("train", *SMALL, "--epochs", "1", "--selection", "random").code == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "digits-random-seed0",
        "digits-random-seed0-2",
    ]


def test_every_flag_reaches_the_recipe(gradlex: Command, tmp_path: Path) -> None:
    fields = {
        "dataset": "digits",
        "train_size": 100,
        "validation_fraction": 0.25,
        "test_fraction": 0.5,
        "augment": "crop1",
        "task": "classification(case_error=loss)",
        "model": "small-cnn(width=0.25)",
        "epochs": 2,
        "batch_size": 20,
        "lr": 0.05,
        "optimizer": "sgd(nesterov=true)",
        "momentum": 0.5,
        "weight_decay": 0.001,
        "schedule": "linear",
        "precision": "float32",
        "seed": 7,
        "selection": "epsilon-lexicase(epsilon=0.1)",
        "population": 3,
        "promotion": "average",
        "momentum_state": "inherit",
        "branch_at": 0.5,
        "tail": "constant(factor=2)",
        "recalibrate": 1,
    }
    words = [word for name, value in fields.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    found = gradlex("train", *words, "--tail-mean", "--out", "mine", "--deterministic")
    assert found.code == 0, found.err
    stored = recipe_of(tmp_path / "mine")
    assert {name: stored[name] for name in fields} == fields
    assert stored["tail_mean"] is True


def test_flags_override_the_preset(gradlex: Command, tmp_path: Path) -> None:
    assert gradlex("train", *SMALL, "--preset", "branched", "--branch-at", "0.5", "--out", "mine").code == 0
    stored = recipe_of(tmp_path / "mine")
    assert (stored["branch_at"], stored["promotion"], stored["tail_mean"]) == (0.5, "average", True)


def test_the_command_and_the_library_train_the_same_network(gradlex: Command, tmp_path: Path) -> None:
    assert gradlex("train", *SMALL, "--seed", "5", "--out", "mine").code == 0
    run = library.train(train_size=120, population=2, epochs=3, model="mlp", seed=5, device="auto")
    for name, weights in load_file(tmp_path / "mine" / "model.safetensors").items():
        np.testing.assert_array_equal(run.model.state_dict()[name].numpy(), weights)


def test_a_finished_run_is_not_trained_again(gradlex: Command, trained: Trained) -> None:
    before = (trained[0] / "model.safetensors").stat().st_mtime_ns
    found = gradlex("resume", str(trained[0]))
    assert found.code == 0
    assert "3 generations" in found.out
    assert (trained[0] / "model.safetensors").stat().st_mtime_ns == before


def test_evaluate_labels_the_axes_of_its_matrix(gradlex: Command, trained: Trained) -> None:
    found = gradlex("evaluate", str(trained[0]))
    assert found.code == 0
    lines = found.out.splitlines()
    samples = json.loads((trained[0] / "run.json").read_text())["data"]["samples"]["test"]
    assert lines[0].startswith(f"{samples} samples: accuracy ")
    assert lines[lines.index("") + 1].split() == ["true", "\\", "predicted", *map(str, range(10)), "correct"]
    rows = [line.split() for line in lines[lines.index("") + 2 :]]
    assert [row[0] for row in rows] == [str(number) for number in range(10)]
    assert sum(int(cell) for row in rows for cell in row[1:11]) == samples
    for number, row in enumerate(rows):
        share = int(row[1 + number]) / sum(map(int, row[1:11]))
        assert row[11] == f"{share:.1%}"
    assert max(map(len, lines)) <= 80


def test_evaluate_writes_a_row_for_each_sample(gradlex: Command, trained: Trained, tmp_path: Path) -> None:
    found = gradlex("evaluate", str(trained[0]), "--out", "rows.csv")
    frame = pd.read_csv(tmp_path / "rows.csv")
    assert found.out.endswith(f"{len(frame)} rows in rows.csv\n")
    correct = json.loads((trained[0] / "result.json").read_text())["metrics"]["test"]["accuracy"]
    assert (frame.target == frame.predicted).mean() == pytest.approx(correct)
    assert (frame.error == (frame.target != frame.predicted)).all()


def test_many_classes_are_shown_by_the_worst_and_the_most_frequent_mistakes(gradlex: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 30
    x = rng.normal(size=(300, 6)).astype(np.float32)
    np.savez(tmp_path / "many.npz", x_train=x, y_train=y, x_test=x[:90], y_test=y[:90])
    assert (
        gradlex(
            "train", "--dataset", "many.npz", "--epochs", "1", "--population", "1", "--selection", "sgd", "--out", "a"
        ).code
        == 0
    )
    found = gradlex("evaluate", "a").out
    assert "worst of 30 classes" in found
    assert found.count("predicted as") == 10
    assert max(map(len, found.splitlines())) <= 80


def test_predict_prints_a_line_for_each_sample(gradlex: Command, trained: Trained, tmp_path: Path) -> None:
    images = load_digits().images[:5]
    x = np.round(images / 16 * 255).astype(np.uint8)[:, None]
    np.savez(tmp_path / "new.npz", x=x)
    found = gradlex("predict", str(trained[0]), "new.npz")
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert len(lines) == 5
    assert all(re.fullmatch(r"\d: \d \(\d+\.\d%\)", line) for line in lines)
    run = library.load(trained[0])
    assert [int(line.split()[1]) for line in lines] == run.predict(x).tolist()


def test_a_table_is_learned_and_predicted_in_its_own_units(gradlex: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    size = rng.uniform(20, 200, 200)
    frame = pd.DataFrame({"size": size, "town": rng.choice(["A", "B"], 200), "price": 1000 * size})
    frame.to_csv(tmp_path / "homes.csv", index=False)
    frame.drop(columns="price").head(4).to_csv(tmp_path / "new.csv", index=False)
    words = ("--dataset", "homes.csv", "--target", "price", "--epochs", "20", "--lr", "0.02", "--population", "2")
    found = gradlex("train", *words, "--out", "mine")
    assert found.code == 0, found.err
    assert found.err == ""
    assert re.search(r"^test +r2 ", found.out, re.MULTILINE)
    assert gradlex("predict", "mine", "new.csv", "--out", "prices.csv").code == 0
    prices = pd.read_csv(tmp_path / "prices.csv")
    assert list(prices.columns) == ["sample", "predicted"]
    assert np.corrcoef(prices.predicted, frame.price[:4])[0, 1] > 0.9


def test_a_run_from_python_is_evaluated_and_predicts_with_the_function_that_makes_its_network(
    gradlex: Command, tmp_path: Path
) -> None:
    (tmp_path / "nets.py").write_text("import torch\ndef make():\n    return torch.nn.Linear(4, 2)\n")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    np.savez(tmp_path / "test.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    np.savez(tmp_path / "new.npz", x=x[:3])
    run = library.train(__import__("torch").nn.Linear(4, 2), (x, y), test=(x, y), epochs=2, batch_size=10, out="mine")
    assert "give one like it" in gradlex("evaluate", "mine").err
    found = gradlex("evaluate", "mine", "--model", "nets:make", "--dataset", "test.npz")
    assert found.code == 0, found.err
    assert f"accuracy {run.metrics['test']['accuracy']:.1%}" in found.out
    found = gradlex("predict", "mine", "new.npz", "--model", "nets:make")
    answers = [line.split()[1] for line in found.out.splitlines()]
    assert answers == [str(answer) for answer in run.predict(x[:3]).tolist()], found.err


def test_report_prints_a_summary_and_writes_the_page_on_request(gradlex: Command, trained: Trained) -> None:
    page = trained[0] / "report.html"
    found = gradlex("report", str(trained[0]))
    assert found.code == 0
    assert "mlp on digits" in found.out
    assert max(map(len, found.out.splitlines())) <= 80
    assert not page.exists()
    assert str(page) in gradlex("report", str(trained[0]), "--page").out
    assert page.read_text().startswith("<!doctype html>")


def test_workers_run_the_same_command_under_torchrun(gradlex: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("torch.distributed.run.main", started.append)
    for words in (["train", "--seed", "2", "--workers", "3"], ["resume", "mine", "--workers", "3"]):
        assert gradlex(*words).code == 0
        assert started[-1][:5] == ["--standalone", "--nproc-per-node", "3", "-m", "gradlex"]
        assert started[-1][5 : 5 + len(words)] == words
    assert started[0][-2:] == ["--out", "runs/digits-lexicase-seed2"]


@pytest.mark.slow
def test_several_workers_print_once_and_reach_the_same_weights(
    gradlex: Command, trained: Trained, tmp_path: Path
) -> None:
    words = ("train", *SMALL, "--seed", "3", "--workers", "2", "--out", "mine")
    done = subprocess.run(
        [sys.executable, "-m", "gradlex", *words], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=120
    )
    assert done.stdout.count("lexicase with 2 candidates") == 1
    assert done.stdout.count("Next: gradlex report mine") == 1
    assert done.stderr == ""
    assert json.loads((tmp_path / "mine" / "run.json").read_text())["environment"]["processes"] == 2
    alone = load_file(trained[0] / "model.safetensors")
    for name, weights in load_file(tmp_path / "mine" / "model.safetensors").items():
        np.testing.assert_array_equal(weights, alone[name])


@pytest.mark.slow
def test_bad_input_of_several_workers_is_exit_code_2_without_torchruns_traceback(tmp_path: Path) -> None:
    words = ("train", "--dataset", "nothing.npz", "--workers", "2")
    done = subprocess.run(
        [sys.executable, "-m", "gradlex", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 2
    assert "nothing.npz" in done.stderr
    assert "Traceback" not in done.stderr
