"""Where the command's words go: to a reader who leaves, to nowhere, to a terminal that knows no umlauts."""

from __future__ import annotations

import os
import subprocess
import sys

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
