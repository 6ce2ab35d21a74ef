"""A run folder is self-contained: it is evaluated and resumed from anywhere, alone or moved with its data."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import torch

import gradlex
from gradlex import InputError
from gradlex.runs import load_network

ALONE = ("--workers", 1)
COMMAND = (
    "train", "--model", "mlp", "--width", "0.1", "--population", 2, "--batch-size", 8, "--generations", 3,
    "--threads", 1, *ALONE, "--out",
)  # fmt: skip


def write_archive(path, shift=0):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 60)
    x = (shift + 50 * y[:, None, None] + rng.integers(0, 90, (60, 4, 4))).astype(np.uint8)
    np.savez(path, x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])


@pytest.fixture(scope="module")
def trained(forks, fault, tmp_path_factory):
    """A project folder with an archive and two runs of it by its relative path: a whole one, and one cut off."""
    project = tmp_path_factory.mktemp("trained") / "project"
    (project / "runs").mkdir(parents=True)
    write_archive(project / "own.npz")
    forks.run(*COMMAND, "runs/whole", "--dataset", "own.npz", cwd=project)
    dying = [fault(project / "runs" / "cut", "train", 4)]
    forks.start(*COMMAND, project / "runs" / "cut", "--dataset", "own.npz", cwd=project, faults=dying).wait()
    return project


@pytest.fixture
def project(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "project")
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "project"


def same_network(one, other):
    assert json.loads((one / "result.json").read_text())["generations"] == 3
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


def test_another_current_directory(forks, project):
    elsewhere, runs = project.parent / "elsewhere", project / "runs"
    here = forks.run("evaluate", "runs/whole", cwd=project).out
    assert "accuracy" in here
    assert forks.run("evaluate", runs / "whole", cwd=elsewhere).out == here
    assert forks.run("evaluate", "../project/runs/whole", cwd=elsewhere).out == here
    forks.run("resume", "../project/runs/cut", *ALONE, cwd=elsewhere)
    same_network(runs / "cut", runs / "whole")


def test_other_data_of_the_same_name_in_the_current_directory_is_not_taken_for_it(forks, project):
    elsewhere = project.parent / "elsewhere"
    write_archive(elsewhere / "own.npz", shift=9)
    here = forks.run("evaluate", "runs/whole", cwd=project).out
    assert forks.run("evaluate", project / "runs" / "whole", cwd=elsewhere).out == here
    forks.run("resume", project / "runs" / "cut", *ALONE, cwd=elsewhere)
    same_network(project / "runs" / "cut", project / "runs" / "whole")


def test_run_and_data_moved_together(forks, project, trained):
    moved = project.parent / "elsewhere" / "moved"
    project.rename(moved)
    assert "accuracy" in forks.run("evaluate", "elsewhere/moved/runs/whole", cwd=moved.parent.parent).out
    forks.run("resume", moved / "runs" / "cut", *ALONE)
    same_network(moved / "runs" / "cut", trained / "runs" / "whole")


def test_a_run_behind_a_link(forks, project):
    link = project.parent / "elsewhere" / "link"
    link.symlink_to(project / "runs")
    assert "accuracy" in forks.run("evaluate", link / "whole").out


def test_data_that_has_moved_is_named(forks, project, contents):
    elsewhere, runs = project.parent / "elsewhere", project / "runs"
    here = forks.run("evaluate", "runs/whole", cwd=project).out
    (project / "own.npz").rename(elsewhere / "new.npz")
    before = contents(runs)
    for command in ("evaluate", "resume"):
        done = forks.run(command, runs / "cut" if command == "resume" else runs / "whole", expect=2)
        assert "was trained on 'own.npz', which is not here: say where it is with --dataset PATH" in done.err
    assert contents(runs) == before
    assert forks.run("evaluate", runs / "whole", "--dataset", elsewhere / "new.npz").out == here
    forks.run("resume", runs / "cut", *ALONE, "--dataset", "new.npz", cwd=elsewhere)
    same_network(runs / "cut", runs / "whole")
    assert forks.run("evaluate", runs / "cut").out == here  # it knows the new place


def test_other_data_is_refused_where_the_run_is_resumed_with_it(forks, project, contents):
    write_archive(project / "other.npz", shift=9)
    before = contents(project / "runs")
    resume = ("resume", "runs/cut", *ALONE, "--dataset", "other.npz")
    done = forks.run(*resume, cwd=project, expect=2)
    assert "its fingerprint differs" in done.err
    assert contents(project / "runs") == before


def test_a_network_is_loaded_without_its_data(project):
    os.unlink(project / "own.npz")
    network = load_network(project / "runs" / "whole")
    assert not network.training
    assert network(torch.zeros(2, 1, 4, 4)).shape == (2, 3)
    with pytest.raises(InputError, match="which is not here: say where it is with --dataset PATH"):
        gradlex.runs.evaluate(project / "runs" / "whole")
