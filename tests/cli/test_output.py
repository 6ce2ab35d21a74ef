"""Where the command's words go: to a reader who leaves, to nowhere, to a terminal that knows no umlauts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from rich.table import Table

from gradlex._console import console, metric_words, plural, printable
from gradlex.cli import main

TRAIN = (
    "train", "--model", "mlp", "--width", "0.05", "--train-size", "80", "--generations", "4", "--population", "2",
    "--evaluate-every", "1", "--workers", "1", "--threads", "1",
)  # fmt: skip


def start(*words, **how):
    return subprocess.Popen([sys.executable, "-m", "gradlex", *words], stderr=subprocess.PIPE, **how)


def test_a_reader_who_leaves_does_not_end_the_run(tmp_path):
    process = start(*TRAIN, "--out", str(tmp_path / "run"), stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")
    assert (tmp_path / "run" / "result.json").exists()


def test_closed_outputs_are_no_traceback():
    process = start("selections", preexec_fn=lambda: os.close(1))
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")


def test_a_path_that_the_terminal_cannot_print_is_spelt_out(tmp_path):
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = start(*TRAIN, "--out", str(tmp_path / "für"), stdout=subprocess.PIPE, env=plain)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")
    assert rb"f\xfcr" in out


def test_torchruns_variables_without_torchrun_are_refused_with_the_cure(tmp_path):
    for left in ({"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "0", "WORLD_SIZE": "x"}):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MASTER_")}
        process = start(*TRAIN, "--out", str(tmp_path / "run"), env={**environment, **left})
        _, err = process.communicate(timeout=100)
        assert process.returncode == 2
        assert b"start with torchrun, or unset" in err
        assert b"Traceback" not in err


def test_what_is_to_be_typed_is_whole_in_a_narrow_terminal():
    ours, theirs = os.openpty()
    narrow = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    process = start("selections", stdout=theirs, env=narrow)
    os.close(theirs)
    printed = b""
    try:
        while part := os.read(ours, 4096):
            printed += part
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    process.communicate(timeout=100)
    os.close(ours)
    for name in (b"downsampled-lexicase", b"informed-lexicase", b"epsilon-lexicase"):
        assert name in printed


def test_control_characters_are_spelled_out_alone_and_in_a_table(capsys):
    table = Table("a\x1b[31m")
    table.add_row("b\x07")
    console().print(table)
    console().print("c\x9b\x00\td\ne [bold]", soft_wrap=True)
    printed = capsys.readouterr().out
    for spelled in (r"a\x1b[31m", r"b\x07", r"c\x9b\x00", "d\ne [bold]"):
        assert spelled in printed
    assert "\x1b" not in printed


def test_line_breaks_of_a_path_are_spelled_out(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main([*quick[:-1], "1", "--out", "one\ngradlex: two\tthree"])
    with pytest.raises(SystemExit):
        main(["evaluate", "four\nfive"])
    printed = capsys.readouterr()
    assert r"-> one\ngradlex: two\tthree" in printed.out
    assert r"run folder: one\ngradlex: two\tthree" in printed.out
    assert r"gradlex: four\nfive holds no run" in printed.err


OWN = """
from gradlex.tasks import Classification

def schedule(generation):
    raise KeyError("schedule\\x1b[31m\\nbroke")

def selection(cases, errors, rng):
    raise ZeroDivisionError("selection\\x1b[31m\\nbroke")

class Task(Classification):
    def check(self, inputs, targets, outputs):
        raise KeyError("task\\x1b[31m\\nbroke")
"""


@pytest.mark.parametrize(
    ("part", "code", "told"),
    [
        ("schedule", 2, "gradlex: the schedule schedule failed for generation 0: KeyError: "),
        (
            "selection",
            1,
            "gradlex: selection 'own_parts:selection' failed: ZeroDivisionError: selection\\x1b[31m",
        ),
        ("Task", 2, "KeyError: "),
    ],
)
def test_exceptions_of_ones_own_parts_never_drive_the_terminal(
    part, code, told, quick, tmp_path, monkeypatch, capsys
):
    (tmp_path / "own_parts.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main([*quick, f"--{part.lower()}", f"own_parts:{part}", "--out", "run"])
    printed = capsys.readouterr().err
    assert caught.value.code == code
    assert told in printed
    assert "\x1b" not in printed


def test_what_is_printable_stays_as_it_is():
    text = "für \u4f60\n\ttab [brackets] \xa0"
    assert printable(text) == text


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1_000, "1,000 runs")]
)
def test_plurals(number, words):
    assert plural(number, "run") == words


def test_metrics_have_the_tasks_order_and_fractions_are_in_per_cent():
    measures = [{"name": "accuracy", "fraction": True}, {"name": "loss", "fraction": False}]
    assert metric_words({"loss": 0.5, "accuracy": 0.91234}, measures) == "accuracy 91.23%, loss 0.5000"
    assert (
        metric_words({"accuracy": None, "loss": float("nan")}, measures)
        == "accuracy not finite, loss not finite"
    )
    assert metric_words({"own": 2.0}, measures) == "own 2.0000"
