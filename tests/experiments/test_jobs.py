"""Many runs at a time, in real processes: nothing is done twice, and one that fails stops no other."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from gradlex import Recipe
from gradlex.experiments import Cell, prepare, run_jobs
from gradlex.runs import RunFolder

CPU = torch.device("cpu")
QUICK = Recipe(train_size=60, generations=3, threads=1, population=2, batch_size=10)


class Listener:
    """Remembers what it is told."""

    def __init__(self):
        self.events, self.moves = [], []

    def started(self, job):
        self.events.append(("started", job.recipe.seed))

    def moved(self, job, generations):
        self.moves.append((job.recipe.seed, generations))

    def finished(self, job, test_accuracy):
        self.events.append(("finished", job.recipe.seed, test_accuracy))

    def failed(self, failure):
        self.events.append(("failed", failure.job.recipe.seed, failure.reason))


def jobs(root, *recipes):
    return prepare([Cell(method=recipe.selection, recipe=recipe) for recipe in recipes], root, device=CPU)


def run(prepared, at_once=2):
    listener = Listener()
    failures = run_jobs(prepared, at_once=at_once, device=CPU, data_dir=None, evaluations=3, watcher=listener)
    return listener, failures


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Two runs made at the same time, and what was told of them."""
    root = tmp_path_factory.mktemp("root")
    listener, failures = run(jobs(root, QUICK, QUICK.replace(seed=1)), at_once=2)
    assert failures == []
    return root, listener


def test_what_is_done_is_not_done_again(two_runs):
    root, listener = two_runs
    prepared = jobs(root, QUICK, QUICK.replace(seed=1))
    assert sorted(listener.moves) == [(seed, done) for seed in (0, 1) for done in (1, 2, 3)]
    results = [json.loads((job.folder / "result.json").read_text()) for job in prepared]
    finished = {event[1]: event[2] for event in listener.events if event[0] == "finished"}
    assert finished == {seed: result["test_accuracy"] for seed, result in enumerate(results)}
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}

    again, failures = run(prepared)
    assert (again.events, failures) == ([], [])
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()} == before


def test_how_many_run_at_once_changes_no_result(two_runs, tmp_path):
    root, _ = two_runs
    (alone,) = jobs(tmp_path, QUICK.replace(seed=1))
    run([alone], at_once=1)
    together = root / "runs" / alone.folder.name
    assert (alone.folder / "model.safetensors").read_bytes() == (together / "model.safetensors").read_bytes()


def test_a_run_that_fails_is_named_and_stops_no_other(tmp_path):
    diverges = QUICK.replace(lr=1e30, seed=5)
    listener, failures = run(jobs(tmp_path, diverges, QUICK), at_once=1)
    assert [failure.job.recipe.seed for failure in failures] == [5]
    assert "diverged" in failures[0].reason
    assert not failures[0].elsewhere
    assert listener.events[-1][:2] == ("finished", 0)
    assert list(tmp_path.rglob("*.log")) == []


def test_data_that_changes_on_the_way_is_not_trained_on_under_the_old_name(tmp_path):
    path = tmp_path / "mine.npz"
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60, 8, 8, 1), dtype=np.uint8), np.arange(60) % 3
    np.savez(path, x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    (job,) = jobs(tmp_path / "root", QUICK.replace(dataset=str(path)))
    np.savez(path, x_train=255 - x, y_train=y, x_test=x[:9], y_test=y[:9])
    _, (failure,) = run([job])
    assert "mine.npz has changed since the experiment began" in failure.reason
    assert job.state == "to do"


def test_a_run_that_another_process_holds_is_refused_and_left_alone(tmp_path):
    (job,) = jobs(tmp_path, QUICK)
    with RunFolder(job.folder).locked():
        _, (failure,) = run([job])
    assert "another process is running in" in failure.reason
    assert failure.elsewhere
    assert job.state == "to do"


def test_a_killed_run_is_named_and_goes_on_next_time(tmp_path):
    long = QUICK.replace(generations=60)
    (job,) = jobs(tmp_path, long)

    class Killer(Listener):
        def moved(self, job, generations):
            super().moved(job, generations)
            if generations == 2:
                (child,) = multiprocessing.active_children()
                child.kill()

    killer = Killer()
    (failure,) = run_jobs([job], at_once=1, device=CPU, data_dir=None, evaluations=3, watcher=killer)
    assert "ended by signal 9" in failure.reason
    assert job.state == "interrupted"
    assert 2 <= len((job.folder / "generations.jsonl").read_text().splitlines()) < 60
    listener, failures = run([job])
    assert failures == []
    assert listener.moves[0][1] > 1
    assert job.state == "done"


SCRIPT = """
import sys, torch
from pathlib import Path
from test_jobs import Listener, jobs, QUICK
from gradlex.experiments import run_jobs
from gradlex.errors import InterruptedRun
if __name__ == "__main__":
    prepared = jobs(Path(sys.argv[1]), *(QUICK.replace(seed=s, generations=int(sys.argv[2])) for s in range(3)))
    try:
        run_jobs(prepared, at_once=2, device=torch.device("cpu"), data_dir=None, evaluations=3, watcher=Listener())
    except InterruptedRun as interruption:
        print(interruption)
        sys.exit(interruption.exit_code)
"""


@pytest.mark.parametrize("whole_group", [pytest.param(False, marks=pytest.mark.slow), True])
def test_an_interrupted_experiment_goes_on_to_the_results_it_would_have_had(tmp_path, whole_group):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    here = os.path.dirname(__file__)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    call = [sys.executable, str(script), str(tmp_path / "root"), "40"]
    process = subprocess.Popen(
        call, env=paths, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started = time.monotonic()
    while not list(tmp_path.glob("root/runs/*/checkpoint/00000002")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - started < 100
        time.sleep(0.05)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "3 of 3 runs to do or to finish; the same command goes on there" in out

    prepared = jobs(tmp_path / "root", *(QUICK.replace(seed=s, generations=40) for s in range(3)))
    states = sorted(job.state for job in prepared)
    assert states == ["interrupted", "interrupted", "to do"]
    run(prepared[:1])
    (alone,) = jobs(tmp_path / "alone", QUICK.replace(generations=40))
    run([alone])
    assert (alone.folder / "model.safetensors").read_bytes() == (
        prepared[0].folder / "model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_runs_end_with_the_process_that_started_them(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    here = os.path.dirname(__file__)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    endless = [sys.executable, str(script), str(tmp_path / "root"), "1000000"]
    process = subprocess.Popen(endless, env=paths)
    while not list(tmp_path.glob("root/runs/*/checkpoint/00000002")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    time.sleep(2)
    counts = [np.sum([len(p.read_bytes()) for p in tmp_path.glob("root/runs/*/generations.jsonl")])]
    time.sleep(2)
    counts.append(np.sum([len(p.read_bytes()) for p in tmp_path.glob("root/runs/*/generations.jsonl")]))
    assert counts[0] == counts[1]
