"""Shared memory that is too small: another place is found, one worker is taken, or it is refused with its name."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import gradlex
from gradlex import InputError
from gradlex.cli import main
from gradlex.runs import _resources
from gradlex.runs._shared_memory import SHARED_MEMORY, roomy_folder

pytestmark = pytest.mark.skipif(not SHARED_MEMORY.is_dir(), reason="no file system in memory here")


@pytest.fixture
def free(monkeypatch):
    """Sets the bytes that are free in shared memory and among temporary files."""

    def leave(shared, temporary=2**40):
        monkeypatch.setattr(
            shutil,
            "disk_usage",
            lambda path: SimpleNamespace(free=shared if Path(path) == SHARED_MEMORY else temporary),
        )

    return leave


@pytest.mark.parametrize(
    ("shared", "temporary", "expected"),
    [(1000, 1000, SHARED_MEMORY), (999, 1000, Path(tempfile.gettempdir())), (999, 999, None)],
)
def test_arrays_go_where_there_is_room(shared, temporary, expected, free):
    free(shared, temporary)
    folder = roomy_folder(1000)
    assert (folder and folder.parent) == expected
    if folder is not None:
        folder.rmdir()


def test_workers_that_are_asked_for_are_refused_before_anything_is_written(
    free, images, tiny_cnn, small, tmp_path
):
    free(1000)
    with pytest.raises(InputError, match=r"/dev/shm has 0.0 MB free, .* or use one worker"):
        gradlex.train(tiny_cnn(), images, small, workers=2, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_auto_takes_one_worker_and_says_why(free, monkeypatch, capsys, tmp_path):
    free(1000)
    monkeypatch.setattr(_resources, "cpus", lambda: 2)
    words = ("--model", "mlp", "--width", "0.1", "--train-size", "60", "--generations", "1")
    main(["train", *words, "--out", str(tmp_path / "run")])
    out = capsys.readouterr().out
    assert "; 1 worker x " in out
    assert re.search(r"note: /dev/shm has 0.0 MB free, several workers need .* MB: training with one\.", out)
