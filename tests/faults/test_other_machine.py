"""gradlex resume goes on as the run began: its device and placement; and says so where the machine is another."""

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
    """A run on the processor, with candidates on the host, that died in its third generation."""
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
    assert f"{run} was computed on hpu:63, which this machine lacks: go on with --device cpu" in done.err
    assert contents(run) == before
    done = forks.run("resume", run, *ALONE, "--device", "cpu")
    assert "computed on hpu with torch" in done.out
    assert "goes on on cpu" in done.out
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
def test_another_torch_is_told_once_and_goes_on(command, run, forks, train, undisturbed, outcome, fault):
    environment(run, torch="0.4.1")
    again = ("resume", run, *ALONE) if command == "resume" else (*train, "--out", run, "--resume")
    child = forks.start(*again, faults=[fault(run, "train", 5)])
    child.wait()
    (told,) = (line for line in child.out.splitlines() if "may differ" in line)
    assert "computed on cpu with torch 0.4.1 and goes on on cpu with torch" in told
    assert "may differ" not in forks.run(*again).out
    assert outcome(run) == outcome(undisturbed)


def test_a_finished_run_is_told_nothing_of_its_machine(undisturbed, forks, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "run")
    environment(tmp_path / "run", torch="0.4.1")
    assert "may differ" not in forks.run("resume", tmp_path / "run", *ALONE).out
