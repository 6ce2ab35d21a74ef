"""Two processes on one run folder: the second is refused; a crash leaves no lock behind."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

import gradlex
from gradlex import InputError, Recipe


def test_a_second_process_is_refused_while_the_first_lives(
    forks, train, undisturbed, outcome, contents, fault, kept, until, tmp_path
):
    folder = tmp_path / "run"
    first = forks.start(*train, "--out", folder, faults=[fault(folder, "train", 8, action=signal.SIGSTOP)])
    until(lambda: "State:\tT" in Path(f"/proc/{first.pid}/status").read_text())
    assert kept(folder) == [1, 2]
    before = contents(folder)
    for second in ((*train, "--out", folder, "--resume"), ("resume", folder, "--workers", 1)):
        done = forks.run(*second, expect=2)
        assert f"another process is running in {folder}: wait for it, or stop it." in done.err
    assert contents(folder) == before
    first.kill(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    forks.run("resume", folder, "--workers", 1)  # nothing is left to be removed by hand
    assert outcome(folder) == outcome(undisturbed)


def test_a_folder_that_was_taken_while_the_second_made_ready_is_refused(
    undisturbed, contents, monkeypatch, capsys, tmp_path
):
    """The first checks are made without the lock; what counts is what is there once it is held."""
    from gradlex.cli import main
    from gradlex.runs import RunFolder

    def someone_else_finishes(self, **how):
        if not self.path.exists():
            shutil.copytree(undisturbed, self.path)
            monkeypatch.undo()

    monkeypatch.setattr(RunFolder, "check_free", someone_else_finishes)
    with pytest.raises(SystemExit) as caught:
        main(
            [
                *["train", "--model", "mlp", "--train-size", "60", "--workers", "1", "--out"],
                str(tmp_path / "run"),
            ]
        )
    assert caught.value.code == 2
    assert "already holds a run" in capsys.readouterr().err
    assert contents(tmp_path / "run") == contents(undisturbed)


def test_the_library_refuses_too(images, tiny_cnn, calls, tmp_path):
    recipe = Recipe(population=2, generations=2, batch_size=8)
    refused = []

    def again(record):
        try:
            gradlex.train(tiny_cnn(), images, recipe, out=tmp_path, resume=True)
        except InputError as error:
            refused.append(str(error))

    gradlex.train(tiny_cnn(), images, recipe, out=tmp_path, callbacks=[calls(again)])
    assert len(refused) == 2
    assert all("another process is running in" in told for told in refused)
