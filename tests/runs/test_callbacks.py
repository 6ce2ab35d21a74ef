"""What callbacks see of a run, when they are called, and how they end it."""

from __future__ import annotations

import json

import pytest
import torch

import gradlex
from gradlex import RunError
from gradlex.randomness import stream
from gradlex.runs import stored_run


class Killed(BaseException):
    """Ends a run as the loss of power would."""


class Notes(gradlex.Callback):
    """Notes every call, and does at a generation what it was told."""

    def __init__(self, at=None, do=lambda run: None):
        self.at, self.do = at, do
        self.calls, self.records, self.ended = [], [], None

    def on_start(self, run):
        self.calls.append("start")
        self.run, self.resumed, self.before = run, run.resumed, len(run.records)

    def on_generation(self, run, record):
        self.calls.append(record.generation)
        self.records.append(record)
        assert run.records[-1] is record
        assert run.parent.generation == record.generation + 1
        if record.generation == self.at:
            self.do(run)

    def on_end(self, run):
        self.calls.append("end")
        self.ended = run.ended


def kill(run):
    raise Killed


def fail(run):
    raise KeyError("what")


def test_a_callback_is_told_of_the_start_every_generation_and_the_end(images, tiny_cnn, small, tmp_path):
    notes = Notes()
    recipe = small.replace(generations=3)
    run = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", callbacks=[notes])
    assert notes.calls == ["start", 0, 1, 2, "end"]
    assert notes.records == run.generations
    assert (notes.ended, notes.resumed, notes.run.stopped) == ("finished", False, None)
    assert notes.run.recipe == run.recipe
    assert notes.run.path == tmp_path / "run"
    assert notes.run.data["train_samples"] == 50
    assert notes.run.result == run.result
    assert [measure.name for measure in notes.run.measures][:2] == ["accuracy", "loss"]
    assert (notes.run.workers, notes.run.device) == (1, "cpu")


def test_the_network_is_a_copy_of_its_own_in_evaluation_mode(images, tiny_cnn, small, same):
    networks = []

    def take(run):
        networks.append(run.network())
        with torch.no_grad():
            for parameter in run.network().parameters():
                parameter.zero_()

    run = gradlex.train(tiny_cnn(), images, small, callbacks=[Notes(1, take)])
    assert same(networks[0].state_dict(), run.model.state_dict())  # of the last generation
    assert not any(module.training for module in networks[0].modules())
    plain = gradlex.train(tiny_cnn(), images, small)
    assert same(plain.model.state_dict(), run.model.state_dict())


def test_a_callback_may_stop_the_run_which_is_finished_then(images, tiny_cnn, small, same, tmp_path):
    recipe = small.replace(generations=6, schedule="constant")
    notes = Notes(2, lambda run: run.stop("good enough"))
    run = gradlex.train(
        tiny_cnn(),
        images,
        recipe,
        test=images,
        evaluate_every=4,
        out=tmp_path / "run",
        callbacks=[notes],
    )
    assert notes.calls == ["start", 0, 1, 2, "end"]
    assert notes.ended == "finished"
    assert (run.result["stopped"], run.result["generations"]) == ("good enough", 3)
    assert run.result["samples_trained"] == 3 * 50
    expected = gradlex.train(tiny_cnn(), images, recipe.replace(generations=3), test=images)
    assert same(run.model.state_dict(), expected.model.state_dict())
    assert run.test == expected.test
    assert "good enough" in repr(run)


def test_a_stopped_run_is_given_back_and_not_trained_on(images, tiny_cnn, small, same, tmp_path):
    recipe = small.replace(generations=6)
    stop = Notes(1, lambda run: run.stop("enough"))
    first = gradlex.train(
        tiny_cnn(), images, recipe, out=tmp_path / "run", checkpoint_every=4, callbacks=[stop]
    )
    again = Notes()
    second = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", resume=True, callbacks=[again])
    assert again.calls == ["start", "end"]
    assert (again.resumed, again.before) == (True, 2)
    assert second.result == first.result
    assert second.generations == first.generations
    assert same(first.model.state_dict(), second.model.state_dict())
    assert stored_run(tmp_path / "run").result == first.result


def test_the_first_reason_to_stop_counts(images, tiny_cnn, small):
    stops = [Notes(0, lambda run, word=word: run.stop(word)) for word in ("first", "second")]
    assert gradlex.train(tiny_cnn(), images, small, callbacks=stops).result["stopped"] == "first"


def test_a_run_may_be_stopped_before_it_has_begun(images, tiny_cnn, small, same):
    class Never(gradlex.Callback):
        def on_start(self, run):
            run.stop("no")

    run = gradlex.train(tiny_cnn(), images, small, test=images, callbacks=[Never()])
    assert (run.generations, run.result["generations"], run.result["stopped"]) == ([], 0, "no")
    assert same(run.model.state_dict(), tiny_cnn().state_dict())
    assert run.test["accuracy"] == run.train["accuracy"]


def test_a_failing_callback_is_named_and_the_run_can_be_resumed(images, tiny_cnn, small, same, tmp_path):
    recipe = small.replace(generations=4)
    other = Notes()
    with pytest.raises(
        RunError, match=r"the callback Notes\.on_generation failed: KeyError: 'what' .*test_call"
    ):
        gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", callbacks=[other, Notes(1, fail)])
    assert (other.calls, other.ended) == (["start", 0, 1, "end"], "failed")
    notes = Notes()
    run = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", resume=True, callbacks=[notes])
    assert notes.calls == ["start", 2, 3, "end"]
    assert (notes.resumed, notes.before) == (True, 2)
    assert same(run.model.state_dict(), gradlex.train(tiny_cnn(), images, recipe).model.state_dict())


def test_every_callback_is_told_of_the_end_though_one_fails_there(images, tiny_cnn, small):
    class FailsAtTheEnd(gradlex.Callback):
        def on_end(self, run):
            raise KeyError("what")

    notes = Notes()
    with pytest.raises(RunError, match=r"FailsAtTheEnd\.on_end failed"):
        gradlex.train(tiny_cnn(), images, small, callbacks=[FailsAtTheEnd(), notes])
    assert notes.calls[-1] == "end"


@pytest.mark.parametrize("every", [1, 3])
def test_a_killed_run_is_resumed_from_its_checkpoint(every, images, tiny_cnn, small, tmp_path):
    recipe = small.replace(generations=5)
    notes = Notes(3, kill)
    with pytest.raises(Killed):
        gradlex.train(
            tiny_cnn(), images, recipe, out=tmp_path / "run", checkpoint_every=every, callbacks=[notes]
        )
    assert notes.ended == "failed"
    again = Notes()
    gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", resume=True, callbacks=[again])
    assert again.calls == ["start", *range(4 if every == 1 else 3, 5), "end"]
    lines = [json.loads(line) for line in (tmp_path / "run" / "generations.jsonl").read_text().splitlines()]
    assert [line["generation"] for line in lines] == [0, 1, 2, 3, 4]


def test_a_record_names_the_cases_that_decided(images, tiny_cnn, small, tmp_path):
    run = gradlex.train(tiny_cnn(), images, small.replace(generations=4), out=tmp_path / "run")
    for record in stored_run(tmp_path / "run").generations:
        order = stream(run.recipe.seed, "cases", record.generation).permutation(50)
        places = [used for used, _ in record.survivors]
        places += [record.cases_used] if record.reason == "all_failed" else []
        assert record.deciding == tuple(order[place - 1] for place in places)
    assert any(record.deciding for record in run.generations)


def test_records_without_deciding_cases_are_read(images, tiny_cnn, small, tmp_path):
    gradlex.train(tiny_cnn(), images, small, out=tmp_path / "run")
    path = tmp_path / "run" / "generations.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["deciding"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert {record.deciding for record in stored_run(tmp_path / "run").generations} == {None}
