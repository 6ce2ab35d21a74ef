"""A run that a callback has stopped is finished: resume trains it no further, whatever interrupts it on the way."""

from __future__ import annotations

import pytest

import gradlex
from gradlex import Callback, InputError, Recipe
from gradlex.runs import RunFolder, stored_run

RECIPE = Recipe(population=2, generations=8, batch_size=8, threads=1, momentum="inherit")


class StopAfter(Callback):
    """Stops once so many generations of this run, in all its sittings, are done."""

    def __init__(self, generations):
        self._generations = generations
        self.ends = []

    def on_generation(self, run, record):
        if len(run.records) >= self._generations:
            run.stop(f"{self._generations} are enough")

    def on_end(self, run):
        self.ends.append(run.ended)


def train(tiny_cnn, images, folder, *callbacks, **how):
    return gradlex.train(
        tiny_cnn(), images, RECIPE, test=images, out=folder, evaluate_every=3, callbacks=callbacks, **how
    )


def test_it_is_finished_and_not_trained_again(tiny_cnn, images, same, contents, kept, tmp_path):
    stop = StopAfter(5)
    first = train(tiny_cnn, images, tmp_path, stop, checkpoint_every=4)
    assert stop.ends == ["finished"]
    assert kept(tmp_path) == [4, 5]
    assert first.result["stopped"] == "5 are enough"
    assert first.result["generations"] == len(first.generations) == 5
    assert first.test.keys() >= {"accuracy", "loss"}
    before = contents(tmp_path)
    again = train(tiny_cnn, images, tmp_path, resume=True)  # without the callback
    assert contents(tmp_path) == before
    assert again.result == first.result
    assert same(again.model.state_dict(), first.model.state_dict())
    assert stored_run(tmp_path).result["stopped"] == "5 are enough"


def test_an_interrupted_run_with_a_callback_resumes_exactly(tiny_cnn, images, outcome, dying, tmp_path):
    train(tiny_cnn, images, tmp_path / "whole", StopAfter(5))
    for generation in (0, 3):
        with dying(after=generation) as end:
            train(tiny_cnn, images, tmp_path / "cut", StopAfter(5), end, resume=True)
    train(tiny_cnn, images, tmp_path / "cut", StopAfter(5), resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_a_stop_in_the_last_sitting_before_its_result_was_written(
    tiny_cnn, images, outcome, death, monkeypatch, tmp_path
):
    """Killed between the last checkpoint and the result: that it was stopped is in the checkpoint."""
    train(tiny_cnn, images, tmp_path / "whole", StopAfter(5))

    write = RunFolder.write_bytes

    def dies(folder, name, content):
        if name == "model.safetensors":
            raise death
        write(folder, name, content)

    monkeypatch.setattr(RunFolder, "write_bytes", dies)
    with pytest.raises(death):
        train(tiny_cnn, images, tmp_path / "cut", StopAfter(5))
    monkeypatch.undo()
    assert len((tmp_path / "cut" / "generations.jsonl").read_text().splitlines()) == 5
    assert not (tmp_path / "cut" / "result.json").exists()
    train(tiny_cnn, images, tmp_path / "cut", resume=True)  # without the callback
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_fewer_generations_are_still_refused(tiny_cnn, images, contents, tmp_path):
    train(tiny_cnn, images, tmp_path, StopAfter(5))
    before = contents(tmp_path)
    with pytest.raises(InputError, match="fewer generations than the run has planned"):
        gradlex.train(
            tiny_cnn(), images, RECIPE.replace(generations=4), test=images, out=tmp_path, resume=True
        )
    assert contents(tmp_path) == before
