"""Files that someone else wrote: nothing in them is executed, nothing leads out of the folder, no traceback."""

from __future__ import annotations

import json
import shutil

import pytest

import gradlex
from gradlex import Recipe, RunError

DEEP = "[" * 100_000 + "]" * 100_000
BAD_FILES = {
    "empty": b"",
    "not JSON": b"{",
    "a list": b"[]",
    "a number": b"1",
    "nothing": b"null",
    "no recipe": b'{"data": {}}',
    "no data": b'{"recipe": {}}',
    "recipe of text": b'{"recipe": "lr", "data": {}}',
    "data of text": b'{"recipe": {}, "data": "text"}',
    "not text": b"\xff\xfe\x00\x80",
    "deep": DEEP.encode(),
    "deep inside": b'{"recipe": {"lr": ' + DEEP.encode() + b'}, "data": {}}',
    "huge number": b'{"recipe": {"seed": ' + b"9" * 10_000 + b'}, "data": {}}',
}
FIELDS = {
    "unknown": {"learning_rate": 0.1},
    "lr is NaN": {"lr": float("nan")},
    "lr is infinite": {"lr": float("inf")},
    "lr is text": {"lr": "0.1"},
    "lr is huge": {"lr": 10**400},
    "lr is a list": {"lr": [0.1]},
    "lr is true": {"lr": True},
    "population is half": {"population": 1.5},
    "population is huge": {"population": 10**30},
    "seed is text": {"seed": "0"},
    "seed is null": {"seed": None},
    "threads is huge": {"threads": 10**9},
    "batch size is text": {"batch_size": "all"},
    "optimizer options are a list": {"optimizer_options": [1]},
    "optimizer options are odd": {"optimizer_options": {"momentum": "much"}},
    "optimizer options are nested": {"optimizer_options": {"nesterov": {"a": [1]}}},
    "compile is text": {"compile": "yes"},
    "selection is a number": {"selection": 7},
    "share is text": {"selection": "downsampled-lexicase", "selection_options": {"share": "half"}},
    "sigma is huge": {"selection": "dalex", "selection_options": {"sigma": 10**400}},
    "an option of 0.1.0 is text": {"selection": "dalex", "selection_options": {}, "sigma": "x"},
    "selection options are text": {"selection_options": "depth"},
    "selection options are of another": {"selection_options": {"sigma": 3}},
    "task is unknown": {"task": "clasification"},
    "task options are odd": {"task_options": {"case_error": ["loss"]}},
    "schedule is given": {"schedule": "given"},
    "model has a NUL": {"model": "a\0b"},
    "dataset has a NUL": {"dataset": "a\0b.npz"},
    "dataset leads out": {"dataset": "../../../../etc/passwd.npz"},
    "model is a path": {"model": "../../evil:make"},
    "init_from is a folder": {"init_from": "/"},
    "init_from has a NUL": {"init_from": "\0"},
    "augment is unknown": {"augment": "crop9999999999999999999"},
}


@pytest.fixture
def run(undisturbed, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def refused(forks, contents):
    def check(folder, command):
        before = contents(folder)
        done = forks.run(*command, expect=2)
        assert done.err.startswith("gradlex: ")
        assert contents(folder) == before
        return done.err

    return check


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES)
def test_a_recipe_file_that_is_none_is_refused_by_name(content, run, refused):
    (run / "recipe.json").write_bytes(content)
    for command in ("resume", "evaluate"):
        assert str(run / "recipe.json") in refused(run, (command, run))


@pytest.mark.parametrize("change", FIELDS.values(), ids=FIELDS)
def test_a_recipe_with_a_bad_field_is_refused(change, run, refused):
    stored = json.loads((run / "recipe.json").read_text())
    stored["recipe"].update(change)
    (run / "recipe.json").write_text(json.dumps(stored))
    shutil.rmtree(run / "checkpoint")
    for name in ("result.json", "generations.jsonl", "evaluations.jsonl"):
        (run / name).unlink()  # where the run would begin again
    told = refused(run, ("resume", run, "--workers", 1))
    assert len(told) < 1000


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"input_shape": 5},
        {"normalization": None},
        {"normalization": {"mean": "x", "std": [1]}},
        {"class_names": 3},
        {"class_names": ["one"]},
        {"num_classes": "ten"},
        {"fingerprint": None},
        {"normalization": {"mean": [0, 0, 0], "std": [1, 1, 1]}},
        {"normalization": {"mean": [0], "std": []}},
        {"normalization": {"mean": [0], "std": [0]}},
        {"normalization": {"mean": [float("nan")], "std": [1]}},
        {"input_shape": []},
        {"input_shape": [-1, 8, 8]},
        {"input_shape": [True, 8, 8]},
        {"outputs": -3},
    ],
)
def test_evaluate_refuses_a_description_of_data_that_is_none(data, run, refused):
    stored = json.loads((run / "recipe.json").read_text())
    stored["data"] = {**stored["data"], **data} if data else {}
    (run / "recipe.json").write_text(json.dumps(stored))
    refused(run, ("evaluate", run))


@pytest.mark.parametrize(
    "missing", ["input_shape", "normalization", "num_classes", "class_names", "fingerprint"]
)
def test_evaluate_refuses_a_description_of_data_that_lacks_something(missing, run, refused):
    stored = json.loads((run / "recipe.json").read_text())
    del stored["data"][missing]
    (run / "recipe.json").write_text(json.dumps(stored))
    assert "does not describe the run's data" in refused(run, ("evaluate", run))


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"evaluate_every": "x"}',
        '{"checkpoint_every": -1}',
        '{"placement": []}',
        '{"device": {"cpu": 0}}',
        '{"keep_checkpoints": 5}',
        '{"keep_checkpoints": "5"}',
        '{"keep_checkpoints": [[1]]}',
        DEEP,
    ],
)
def test_an_environment_file_that_is_none_is_refused(content, run, refused):
    (run / "environment.json").write_text(content)
    refused(run, ("resume", run, "--workers", 1))


def test_an_unfinished_run_is_not_evaluated(run, refused):
    (run / "result.json").unlink()
    assert "is not finished: run gradlex resume" in refused(run, ("evaluate", run))


@pytest.mark.parametrize("content", [b"", b"\x80\x04}.", b"PK\x03\x04", b"\x08\0\0\0\0\0\0\0{}      "])
def test_weights_that_are_no_safetensors_are_refused(content, run, refused, forks, train, tmp_path):
    (run / "model.safetensors").write_bytes(content)
    assert "model.safetensors" in refused(run, ("evaluate", run))
    command = (*train, "--init-from", run / "model.safetensors", "--out", tmp_path / "new")
    assert "model.safetensors" in refused(run, command)
    assert not (tmp_path / "new").exists()


def test_names_in_a_checkpoint_lead_nowhere(
    forks, train, undisturbed, outcome, fault, checkpoint, rewrite, tmp_path
):
    """Its own list of files is not believed: only the two records that belong there are read."""
    folder = tmp_path / "run"
    forks.start(*train, "--out", folder, faults=[fault(folder, "train", 10)]).wait()
    elsewhere = "../../../../../../../../dev/zero"  # reading it would never end

    def change(tensors, content):
        content["progress"]["bytes"][elsewhere] = 10**12
        content["progress"]["sha256"][elsewhere] = "0" * 64

    path = rewrite(checkpoint(folder, 3), change)
    assert elsewhere.encode() in path.read_bytes()
    done = forks.run("resume", folder, "--workers", 1, seconds=30)
    assert "set aside" not in done.out
    assert outcome(folder) == outcome(undisturbed)


def test_resuming_and_evaluating_read_no_pickle(forks, train, undisturbed, outcome, fault, tmp_path):
    folder = tmp_path / "run"
    forks.start(*train, "--out", folder, faults=[fault(folder, "train", 10)]).wait()
    forks.run("resume", folder, "--workers", 1, no_pickle=True)
    forks.run("evaluate", folder, no_pickle=True)
    assert outcome(folder) == outcome(undisturbed)


class Hole:
    """A dataset that raises at one sample, once that is asked for the second time."""

    def __init__(self, x, y):
        self.x, self.y, self.asked = x, y, 0

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        if index == 7:
            self.asked += 1
            if self.asked > 4:
                raise OSError(5, "Input/output error")
        return self.x[index], int(self.y[index])


def test_data_that_raises_in_the_middle_ends_the_run_and_leaves_the_checkpoint(images, tiny_cnn, tmp_path):
    recipe = Recipe(population=2, generations=6, batch_size=8, threads=1)
    with pytest.raises(RunError, match=r"generation \d.* failed: OSError: .*Input/output error"):
        gradlex.train(tiny_cnn(), Hole(*images), recipe, out=tmp_path / "cut")
    done = len((tmp_path / "cut" / "generations.jsonl").read_text().splitlines())
    assert 0 < done < 6
    whole = Hole(*images)
    whole.asked = -1000
    gradlex.train(tiny_cnn(), whole, recipe, out=tmp_path / "cut", resume=True)
    gradlex.train(tiny_cnn(), whole, recipe, out=tmp_path / "whole")
    one, other = (outcome_of(tmp_path / name) for name in ("cut", "whole"))
    assert one == other


def outcome_of(folder):
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "recipe.json")}


def test_a_run_whose_candidates_all_diverge_leaves_its_last_checkpoint(images, tiny_cnn, calls, tmp_path):
    recipe = Recipe(population=2, generations=6, batch_size=8, threads=1)
    poisoned = []

    def poison(batch, rng):
        return batch * float("nan") if poisoned else batch

    def after(record):
        if record.generation == 2:
            poisoned.append(True)

    with pytest.raises(
        RunError, match=r"every candidate of generation 3 diverged .* at the learning rate 0\.05"
    ):
        gradlex.train(tiny_cnn(), images, recipe, augment=poison, callbacks=[calls(after)], out=tmp_path)
    poisoned.clear()
    run = gradlex.train(tiny_cnn(), images, recipe, augment=poison, out=tmp_path, resume=True)
    assert len(run.generations) == 6


def test_a_metric_that_is_no_float_is_refused(run, refused):
    lines = (run / "evaluations.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    last["metrics"]["test"]["accuracy"] = 10**400
    (run / "evaluations.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    refused(run, ("resume", run, "--workers", 1))
