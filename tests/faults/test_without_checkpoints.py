"""A run whose checkpoints are gone is given back where it is finished, and never trained again without a word."""

from __future__ import annotations

import shutil

import pytest

import gradlex
from gradlex import InputError

ALONE = ("--workers", 1)


def test_a_finished_run_says_so_and_is_left_alone(forks, train, undisturbed, contents, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    shutil.rmtree(folder / "checkpoint")
    before = contents(folder)
    for command in (("resume", folder, *ALONE), (*train, "--out", folder, "--resume")):
        done = forks.run(*command)
        assert "all 5 generations are done: nothing is trained again" in done.out
        assert contents(folder) == before


def test_a_finished_run_without_its_weights_is_refused_and_left_alone(forks, undisturbed, contents, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    shutil.rmtree(folder / "checkpoint")
    (folder / "model.safetensors").unlink()
    before = contents(folder)
    done = forks.run("resume", folder, *ALONE, expect=2)
    assert "are done: nothing is trained again" in done.err
    assert "no network to give back, without a checkpoint or model.safetensors" in done.err
    assert contents(folder) == before


def test_a_finished_run_is_given_back_as_it_was_returned(images, tiny_cnn, small, same, contents, tmp_path):
    recipe = small.replace(schedule="constant", ema=0.5, recalibrate_final=2, momentum="inherit")
    first = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    before = contents(tmp_path)
    again = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path, resume=True)
    assert same(again.model.state_dict(), first.model.state_dict())
    assert same(again.ema.state_dict(), first.ema.state_dict())
    assert again.generations == first.generations
    assert again.result["metrics"] == first.result["metrics"]
    with pytest.raises(
        InputError, match="2 generations without a checkpoint, asked for 3: it cannot be made"
    ):
        gradlex.train(
            tiny_cnn(), images, recipe.replace(generations=3), test=images, out=tmp_path, resume=True
        )
    assert contents(tmp_path) == before


@pytest.mark.parametrize("every", [1, 2])
def test_an_unfinished_run_that_has_lost_its_checkpoints_is_refused_and_left_alone(
    every, images, tiny_cnn, small, contents, dying, tmp_path
):
    recipe = small.replace(generations=5)
    with dying(after=2) as end:
        gradlex.train(tiny_cnn(), images, recipe, out=tmp_path, checkpoint_every=every, callbacks=[end])
    shutil.rmtree(tmp_path / "checkpoint")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"records of 3 generations but no .* due every {every}: restore"):
        gradlex.train(tiny_cnn(), images, recipe, out=tmp_path, resume=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("done", [1, 3, 4])
def test_a_run_that_ended_before_its_first_checkpoint_begins_again(
    done, images, tiny_cnn, small, outcome, calls, death, monkeypatch, tmp_path
):
    recipe = small.replace(generations=5)
    gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "whole")

    def dies(*_, **__):
        raise death

    monkeypatch.setattr("gradlex.runs._journal.save_checkpoint", dies)  # after the fourth record
    with pytest.raises(death):
        gradlex.train(
            tiny_cnn(),
            images,
            recipe,
            out=tmp_path / "run",
            checkpoint_every=4,
            callbacks=[calls(lambda record: dies() if record.generation == done - 1 else None)],
        )
    monkeypatch.undo()
    assert len((tmp_path / "run" / "generations.jsonl").read_text().splitlines()) == done
    gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
