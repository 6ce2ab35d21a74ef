"""gradlex resume keeps the run's device and placement, and says so where the machine is another."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from gradlex import InputError
from gradlex.runs import RunFolder, stored_device

ALONE = ("--workers", 1)


@pytest.fixture(scope="module")
def interrupted(forks, train, fault, tmp_path_factory):
    """A run on the CPU, with candidates on the host, that died in its third generation."""
    folder = tmp_path_factory.mktemp("interrupted") / "run"
    how = ("--device", "cpu", "--placement", "offload")
    forks.start(*train, *how, "--out", folder, faults=[fault(folder, "train", 8)]).wait()
    return folder


@pytest.fixture
def run(interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path / "run")
    return tmp_path / "run"


def environment(folder, **changes):
    path = folder / "environment.json"
    found = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps(found))
    return found


def test_the_device_and_the_placement_come_back(run, forks, undisturbed, outcome):
    done = forks.run("resume", run, *ALONE)
    found = environment(run)
    assert (found["device"], found["placement"]) == ("cpu", "offload")
    assert "may differ" not in done.out
    assert outcome(run) == outcome(undisturbed)


def test_what_is_given_counts_more_than_what_is_stored(run, forks):
    forks.run("resume", run, *ALONE, "--placement", "resident")
    assert environment(run)["placement"] == "resident"


def test_a_device_that_this_machine_lacks_is_refused_until_another_is_named(run, forks, contents):
    environment(run, device="hpu:63")
    before = contents(run)
    done = forks.run("resume", run, *ALONE, expect=2)
    assert f"{run} was computed on hpu:63, which this machine lacks: resume with --device cpu" in done.err
    assert contents(run) == before
    done = forks.run("resume", run, *ALONE, "--device", "cpu")
    assert "resuming with device cpu in place of hpu: the last bits may differ" in done.out
    assert environment(run)["device"] == "cpu"


def test_another_device_of_the_same_kind_is_taken(run, monkeypatch):
    def two_of_them(name):
        if name not in ("cuda", "cuda:0", "cuda:1"):
            raise InputError(name)
        return torch.device(name)

    monkeypatch.setattr("gradlex.runs._resume.find_device", two_of_them)
    for had, expected in (("cuda:1", "cuda:1"), ("cuda:2", "cuda")):
        environment(run, device=had)
        assert stored_device(RunFolder(run)) == torch.device(expected)


@pytest.mark.parametrize("command", ["resume", "train"])
def test_another_torch_is_told_once_and_resumes(command, run, forks, train, undisturbed, outcome, fault):
    environment(run, torch="0.4.1")
    again = ("resume", run, *ALONE) if command == "resume" else (*train, "--out", run, "--resume")
    child = forks.start(*again, faults=[fault(run, "train", 5)])
    child.wait()
    (told,) = (line for line in child.out.splitlines() if "may differ" in line)
    assert f"resuming with torch {torch.__version__} in place of 0.4.1: the last bits may differ" in told
    assert "may differ" not in forks.run(*again).out
    assert outcome(run) == outcome(undisturbed)


def test_a_finished_run_is_told_nothing_of_its_machine(undisturbed, forks, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "run")
    environment(tmp_path / "run", torch="0.4.1")
    assert "may differ" not in forks.run("resume", tmp_path / "run", *ALONE).out


def test_another_processor_numpy_or_gradlex_is_told_by_name(run, forks):
    environment(run, processor="Another One", numpy="1.0", gradlex="0.0.1")
    done = forks.run("resume", run, *ALONE)
    for told in ("in place of Another One", "in place of 1.0", "in place of 0.0.1"):
        assert told in done.out


def test_a_run_of_more_workers_than_candidates_resumes_with_as_many(forks, train, fault, outcome, tmp_path):
    shared = (*train[:1], "--selection", "sgd", *train[1:7], *train[9:13], "--threads", 1, "--workers", 2)
    for name in ("whole", "cut"):
        faults = [fault(tmp_path / name, "train", 4)] if name == "cut" else []
        forks.start(*shared, "--out", tmp_path / name, faults=faults).wait()
    assert not (tmp_path / "cut" / "result.json").exists()
    done = forks.run("resume", tmp_path / "cut")
    assert environment(tmp_path / "cut")["workers"] == 2
    assert "may differ" not in done.out
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_another_share_of_batches_is_told(run, forks):
    environment(run, workers=6)
    assert "data-parallel groups of 1 in place of 2" in forks.run("resume", run, *ALONE).out


def test_a_stacked_run_resumes_stacked_and_another_placement_is_told(forks, train, fault, outcome, tmp_path):
    stacked = (*train, "--placement", "stacked", "--workers", 1)
    for name in ("whole", "cut", "changed"):
        faults = [] if name == "whole" else [fault(tmp_path / name, "train", 4)]
        forks.start(*stacked, "--out", tmp_path / name, faults=faults).wait()
    assert not (tmp_path / "cut" / "result.json").exists()
    assert "may differ" not in forks.run("resume", tmp_path / "cut").out
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
    changed = forks.run("resume", tmp_path / "changed", "--placement", "resident")
    assert "resuming with candidates trained one by one in place of together" in changed.out
