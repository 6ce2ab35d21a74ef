from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gradlex import InputError
from gradlex.callbacks import LOGGERS

Command = Any


def words_of(text: str) -> str:
    """What was printed, without tyro's boxes."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --generations 30", "there is no --generations: use --epochs: a generation is one pass over the data."),
        ("train --learning-rate=0.1", "there is no --learning-rate: use --lr."),
        ("train --learning_rate 0.1", "there is no --learning-rate: use --lr."),
        ("train --momentum reset", "such as 0.9, got 'reset': use --momentum-state reset."),
        ("compare --generations 3", "use --epochs"),
        ("train --threads 2", "use the environment variable OMP_NUM_THREADS."),
        ("train --lr -1", "lr must be a number above 0, got -1.0."),
        ("train --lr nan", "lr must be a number above 0, got nan."),
        ("train --population 0", "population must be a whole number of at least 1, got 0."),
        ("train --workers 0", "workers must be a whole number of at least 1, got 0."),
        ("resume runs/mine --workers 0", "workers must be a whole number of at least 1, got 0."),
        ("train --optimizer adem", "unknown optimizer 'adem'. Did you mean 'adam'?"),
        ("train --schedule cosin", "Did you mean 'cosine'?"),
        ("train --selection lexcase", "Did you mean 'lexicase'?"),
        ("train --selection lexicase(dept=3)", "Did you mean 'depth'?"),
        ("train --model resnet21", "Did you mean 'resnet20'?"),
        ("train --dataset digit", "Did you mean 'digits'?"),
        ("train --dataset nothing.npz", "nothing.npz"),
        ("train --augment crop", "crop"),
        ("train --device abacus", "device 'abacus' cannot be used"),
        ("train --tail-mean", "set branch_at"),
        ("train --patience 3", "validation"),
        ("resume nothing", "nothing holds no run"),
        ("evaluate nothing", "nothing holds no run"),
        ("predict nothing new.npz", "nothing holds no run"),
        ("evaluate nothing --out errors.txt", "name a .csv file in a folder that exists"),
        ("predict nothing new.npz --out no/errors.csv", "name a .csv file in a folder that exists"),
        ("report nothing", "nothing"),
        ("compare --seeds 1 --num-seeds 2", "give --seeds or --num-seeds, not both."),
        ("compare --num-seeds 0", "num_seeds must be a whole number of at least 1, got 0."),
        ("compare --methods adam", "unknown method 'adam'. Known:"),
        ("compare --methods lexcase", "Did you mean 'lexicase'?"),
        ("compare --experiment nowhere:function", "importing nowhere failed"),
        ("compare --experiment function", "is not of the form package.module:name"),
        ("compare --pairs lexicase", "as in 'lexicase:sgd', got 'lexicase'"),
        ("tran", "unknown command 'tran'. Did you mean 'train'?"),
        ("compare --seeds 0,1", "--seeds takes values separated by spaces, got '0,1'."),
        ("compare --jobs 0", "jobs must be a whole number of at least 1, got 0."),
        ("paper table2 --jobs 0", "jobs must be a whole number of at least 1, got 0."),
    ],
)
def test_bad_input_is_one_message_and_writes_nothing(
    gradlex: Command, tmp_path: Path, words: str, message: str
) -> None:
    found = gradlex(*words.split())
    assert found.code == 2
    assert message in found.err
    assert found.err.startswith("gradlex: ")
    assert found.err.count("\n") == 1
    assert found.out == ""
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --epochs ten", "Error parsing --epochs"),
        ("train --populaton 3", "Perhaps you meant: --population INT"),
        ("train --promotion best", "invalid choice 'best' for argument '--promotion'"),
        ("train --log excel", "invalid choice 'excel'"),
        ("predict", "PATH"),
        ("evaluate", "The run folder."),
        ("paper table5", "table1"),
        ("list everything", "'models', 'data', 'selections', 'methods'"),
    ],
)
def test_words_that_do_not_parse_are_explained(gradlex: Command, tmp_path: Path, words: str, message: str) -> None:
    found = gradlex(*words.split())
    assert found.code == 2
    assert message in words_of(found.err)
    assert "Traceback" not in found.err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_a_run_is_left_alone(gradlex: Command, trained: tuple[Path, Any]) -> None:
    before = (trained[0] / "result.json").read_bytes()
    found = gradlex("train", "--out", str(trained[0]))
    assert found.code == 2
    assert "already holds a run" in found.err
    assert (trained[0] / "result.json").read_bytes() == before


def test_a_damaged_run_is_an_error_that_names_the_file(gradlex: Command, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    for command in ("resume", "evaluate", "report"):
        found = gradlex(command, str(tmp_path))
        assert found.code == 2
        assert "run.json is damaged" in found.err


def test_a_run_that_fails_ends_with_code_1(gradlex: Command) -> None:
    small = ("--train-size", "60", "--model", "mlp", "--epochs", "2", "--population", "2")
    found = gradlex("train", *small, "--lr", "1e30", "--weight-decay", "1e30")
    assert found.code == 1
    assert found.err.startswith("gradlex: ")
    assert "finite" in found.err


def test_a_logger_without_its_library_is_an_error_before_anything_is_written(
    gradlex: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError):
        LOGGERS["wandb"]()
    found = gradlex("train", "--log", "wandb")
    assert found.code == 2
    assert "pip install 'gradlex[wandb]'" in found.err
    assert not list(tmp_path.iterdir())


def begun(folder: Path) -> subprocess.Popen[str]:
    """A process whose run has a checkpoint and can't have ended yet."""
    words = ("--train-size", "200", "--model", "mlp", "--epochs", "3000", "--population", "2", "--out", "mine")
    process = subprocess.Popen(
        [sys.executable, "-m", "gradlex", "train", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    checkpoint, deadline = folder / "mine" / "checkpoint.pt", time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_after_its_generation_and_says_how_to_continue(
    tmp_path: Path, number: int, code: int
) -> None:
    process = begun(tmp_path)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "gradlex resume" in errors
    assert "Traceback" not in errors
    assert json.loads((tmp_path / "mine" / "run.json").read_text())["recipe"]["epochs"] == 3000


def test_ctrl_c_again_and_again_ends_a_run_without_a_traceback(tmp_path: Path) -> None:
    process, deadline = begun(tmp_path), time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_a_reader_who_leaves_does_not_end_a_run(tmp_path: Path) -> None:
    words = ("--train-size", "60", "--model", "mlp", "--epochs", "30", "--population", "2", "--out", "mine")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "gradlex", "train", *words],
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "mine" / "result.json").read_text())["generations"] == 30
