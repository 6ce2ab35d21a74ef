"""A resumed run is, byte for byte, the run that was never interrupted, whatever its settings."""

from __future__ import annotations

import json
import math
import os
import runpy
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import gradlex
from gradlex import InputError, Recipe

ALONE = ("--workers", 1)


def squeeze_and_dropout():
    """Convolutions of 3 and 1 pixels, whose memory formats differ, batch norm, dropout, a tied weight."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(2, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.squeeze = nn.Conv2d(8, 4, 1)
            self.drop = nn.Dropout(0.3)
            self.one, self.other = nn.Linear(64, 64), nn.Linear(64, 64)
            self.other.weight = self.one.weight
            self.head = nn.Linear(64, 3)
            self.register_buffer("batches", torch.zeros((), dtype=torch.int64), persistent=False)

        def forward(self, x):
            if self.training:
                self.batches += 1
            x = self.squeeze(self.norm(self.first(x)).relu()).relu().flatten(1)
            return self.head(self.other(self.one(self.drop(x)).relu()).relu())

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return Net()


SETTINGS = {
    "sgd without momentum": {"momentum": "none"},
    "sgd with momentum reset": {"momentum": "reset"},
    "sgd with momentum inherited": {"momentum": "inherit"},
    "sgd with nesterov inherited": {"momentum": "inherit", "optimizer_options": {"nesterov": True}},
    "adamw reset": {"momentum": "reset", "optimizer": "adamw", "lr": 0.01},
    "adamw inherited": {"momentum": "inherit", "optimizer": "adamw", "lr": 0.01},
    "amsgrad inherited": {
        "momentum": "inherit",
        "optimizer": "adam",
        "lr": 0.01,
        "optimizer_options": {"amsgrad": True},
    },
    "rmsprop inherited": {"momentum": "inherit", "optimizer": "rmsprop", "lr": 0.01},
    "adafactor inherited": {"momentum": "inherit", "optimizer": "adafactor", "lr": 0.01},
    "plain sgd": {"selection": "sgd", "population": 1, "momentum": "inherit"},
    "a strategy that remembers": {
        "selection": "informed-lexicase",
        "selection_options": {"share": 0.5, "refresh": 3},
    },
    "losses as errors": {"selection": "epsilon-lexicase", "task_options": {"case_error": "loss"}},
    "a constant learning rate": {"schedule": "constant"},
    "bfloat16": {"precision": "bfloat16"},
    "the mean of all, an outer step and a moving average": {
        "promotion": "average",
        "outer_momentum": 0.9,
        "outer_lr": 0.7,
        "ema": 0.9,
        "recalibrate": 2,
    },
    "augmented": {"augment": "crop1,flip", "momentum": "inherit"},
}


def train(folder, images, settings, problem=None, **how):
    recipe = Recipe(**{**{"population": 3, "generations": 6, "batch_size": 8, "threads": 1}, **settings})
    network, data, task = problem or (squeeze_and_dropout(), images, None)
    return gradlex.train(network, data, recipe, test=data, task=task, out=folder, evaluate_every=2, **how)


SHARE = [
    "sgd without momentum",
    "sgd with momentum reset",
    "sgd with momentum inherited",
    "adamw reset",
    "adamw inherited",
    "plain sgd",
    "a strategy that remembers",
    "the mean of all, an outer step and a moving average",
]


OTHERS = runpy.run_path(str(Path(__file__).with_name("other_problems.py")))
RUNS = [
    *(pytest.param(SETTINGS[n], None, id=n, marks=[] if n in SHARE else pytest.mark.slow) for n in SETTINGS),
    *(
        pytest.param(
            {**SETTINGS[n], "lr": 0.01},
            kind,
            id=f"{kind}, {n}",
            marks=[] if n == "adamw inherited" else pytest.mark.slow,
        )
        for kind in OTHERS["PROBLEMS"]
        for n in ("sgd with momentum reset", "adamw inherited", "plain sgd", "a strategy that remembers")
    ),
]


@pytest.mark.parametrize(("settings", "kind"), RUNS)
def test_a_resumed_run_equals_the_uninterrupted_one(settings, kind, images, outcome, same, dying, tmp_path):
    def problem():
        return OTHERS["problem"](kind) if kind else None

    whole = train(tmp_path / "whole", images, settings, problem())
    for generation in (0, 3):  # once before, once after a strategy's second look at everything
        with dying(after=generation) as end:
            train(tmp_path / "cut", images, settings, problem(), callbacks=[end], resume=True)
    run = train(tmp_path / "cut", images, settings, problem(), resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
    assert same(dict(run.model.named_buffers()), dict(whole.model.named_buffers()))
    times = {"train_seconds": 0, "select_seconds": 0}
    assert [vars(r) | times for r in run.generations] == [vars(r) | times for r in whole.generations]


def test_checkpoints_at_an_interval_resume_too_and_the_newest_two_are_kept(
    images, outcome, dying, kept, tmp_path
):
    train(tmp_path / "whole", images, {})
    with dying(after=4) as end:
        train(tmp_path / "cut", images, {}, checkpoint_every=2, callbacks=[end])
    assert kept(tmp_path / "cut") == [2, 4]
    assert len((tmp_path / "cut" / "generations.jsonl").read_text().splitlines()) == 5
    train(tmp_path / "cut", images, {}, checkpoint_every=5, resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def tensors_of(path):
    """The bytes of a safetensors file behind its header, which holds the seconds a run has taken."""
    data = path.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def test_two_runs_write_the_same_checkpoint_bytes(images, checkpoint, tmp_path):
    settings = {"optimizer": "adamw", "lr": 0.01, "momentum": "inherit"}
    for name in ("one", "other"):
        train(tmp_path / name, images, settings)
    one, other = (tensors_of(checkpoint(tmp_path / name, 6)) for name in ("one", "other"))
    assert len(one) > 10_000
    assert one == other


def test_ctrl_c_in_the_library_leaves_a_good_checkpoint(images, outcome, calls, tmp_path):
    train(tmp_path / "whole", images, {})

    def ctrl_c(record):
        if record.generation == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", images, {}, callbacks=[calls(ctrl_c)])
    train(tmp_path / "cut", images, {}, resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_the_command_resumes_with_the_intervals_and_any_number_of_workers(
    forks, train_command, undisturbed_intervals, outcome, fault, tmp_path
):
    folder = tmp_path / "run"
    forks.start(*train_command, "--out", folder, faults=[fault(folder, "train", 8)]).wait()
    forks.run("resume", folder, "--workers", 2)  # interrupted alone, resumed by two
    assert json.loads((folder / "environment.json").read_text())["workers"] == 2
    assert outcome(folder) == outcome(undisturbed_intervals)
    assert [
        json.loads(line)["generation"] for line in (folder / "evaluations.jsonl").read_text().splitlines()
    ] == [2, 4]


@pytest.fixture(scope="module")
def train_command(train):
    return *train, "--evaluate-every", "3", "--checkpoint-every", "2"


@pytest.fixture(scope="module")
def undisturbed_intervals(forks, train_command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("intervals") / "run"
    forks.run(*train_command, "--out", folder)
    return folder


def test_a_finished_run_says_so_and_is_left_alone(forks, train, undisturbed, contents, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "run")
    before = contents(tmp_path / "run")
    done = forks.run("resume", tmp_path / "run", *ALONE)
    assert "all 5 generations are done" in done.out
    assert contents(tmp_path / "run") == before
    done = forks.run(*train, "--out", tmp_path / "run", "--resume")
    assert "all 5 generations are done" in done.out
    assert contents(tmp_path / "run") == before


def test_a_run_folder_that_was_moved_resumes(forks, train, undisturbed, outcome, fault, tmp_path):
    forks.start(*train, "--out", tmp_path / "run", faults=[fault(tmp_path / "run", "train", 8)]).wait()
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "run")
    forks.run("resume", "elsewhere", *ALONE, cwd=tmp_path)
    assert outcome(tmp_path / "elsewhere") == outcome(undisturbed)


def test_leftovers_of_a_crash_do_no_harm(forks, train, undisturbed, outcome, fault, tmp_path):
    folder = tmp_path / "run"
    forks.start(*train, "--out", folder, faults=[fault(folder, "train", 8)]).wait()
    (folder / "checkpoint" / ".00000003-0123456789abcdef.safetensors.new").write_bytes(b"half")
    (folder / "checkpoint" / "notes").mkdir()
    (folder / ".result.json.new").write_bytes(b"{")
    (folder / ".lock").touch()
    with open(folder / "generations.jsonl", "a") as file:
        file.write('{"generation": 2, "lr"')
    forks.run("resume", folder, *ALONE)
    assert outcome(folder) == outcome(undisturbed)
    assert not list(folder.rglob("*.new"))


def test_more_generations_are_allowed_with_a_constant_learning_rate(
    images, outcome, contents, dying, tmp_path
):
    settings = {"schedule": "constant", "momentum": "inherit"}
    train(tmp_path / "whole", images, settings)
    train(tmp_path / "cut", images, {**settings, "generations": 4})
    with dying(after=4) as end:
        train(tmp_path / "cut", images, settings, resume=True, callbacks=[end])
    assert not (tmp_path / "cut" / "result.json").exists()  # what is there is no longer the end
    assert not (tmp_path / "cut" / "model.safetensors").exists()
    train(tmp_path / "cut", images, settings, resume=True)
    one, other = outcome(tmp_path / "cut"), outcome(tmp_path / "whole")
    assert {**one, "evaluations.jsonl": None} == {**other, "evaluations.jsonl": None}
    before = contents(tmp_path / "cut")
    with pytest.raises(InputError, match="asked for 4: fewer generations than the run has planned"):
        train(tmp_path / "cut", images, {**settings, "generations": 4}, resume=True)
    assert contents(tmp_path / "cut") == before


def test_a_resumed_run_gives_the_same_tensors_in_the_same_memory_formats(images, dying, tmp_path):
    whole = train(None, images, {"optimizer": "adamw", "lr": 0.01})
    with dying(after=2) as end:
        train(tmp_path, images, {"optimizer": "adamw", "lr": 0.01}, callbacks=[end])
    run = train(tmp_path, images, {"optimizer": "adamw", "lr": 0.01}, resume=True)
    for name, tensor in whole.model.state_dict().items():
        found = run.model.state_dict()[name]
        assert torch.equal(found, tensor)
        assert found.stride() == tensor.stride()


def test_a_run_stays_in_its_folder_when_the_program_changes_its_directory(
    images, outcome, contents, calls, tmp_path, monkeypatch
):
    train(tmp_path / "elsewhere" / "run", images, {})
    before = contents(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    train("run", images, {}, callbacks=[calls(lambda record: os.chdir(tmp_path / "elsewhere"))])
    assert contents(tmp_path / "elsewhere") == before
    assert outcome(tmp_path / "run") == outcome(tmp_path / "elsewhere" / "run")


def test_a_finished_run_gives_back_the_result_it_has_stored(images, tmp_path):
    first = train(tmp_path, images, {})
    assert train(tmp_path, images, {}, resume=True).result == first.result


def test_a_loss_that_is_no_number_is_null_in_the_files(images, tmp_path):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            outputs = self.head(x.flatten(1))
            return outputs if self.training else outputs * math.nan

    recipe = Recipe(population=2, generations=2, batch_size=8, threads=1, selection="random")
    gradlex.train(Broken(), images, recipe, test=images, out=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "evaluations.jsonl").read_text().splitlines()]
    assert lines[-1]["metrics"]["test"]["loss"] is None
    assert json.loads((tmp_path / "result.json").read_text())["metrics"]["train"]["loss"] is None
    again = gradlex.train(Broken(), images, recipe, test=images, out=tmp_path, resume=True)
    assert math.isnan(again.generations[-1].test["loss"])
