"""Many runs at a time, in real processes: nothing is done twice, and one that fails stops no other."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch

from gradlex import Recipe
from gradlex.errors import InterruptedRun
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

    def waiting(self, job):
        self.events.append(("waiting", job.recipe.seed))

    def finished(self, job, *, elsewhere=False):
        self.events.append(("elsewhere" if elsewhere else "finished", job.recipe.seed))

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
    assert sorted(event[1] for event in listener.events if event[0] == "finished") == [0, 1]
    for job in prepared:
        assert job.result == json.loads((job.folder / "result.json").read_text())
        assert set(job.result["metrics"]) == {"test", "train"}
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
    assert listener.events[-1] == ("finished", 0)
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


def test_a_run_that_another_process_stops_running_is_taken_over(tmp_path):
    first, second = jobs(tmp_path, QUICK, QUICK.replace(seed=1))
    with ExitStack() as held:
        held.enter_context(RunFolder(first.folder).locked())

        class Ender(Listener):
            def finished(self, job, *, elsewhere=False):
                super().finished(job, elsewhere=elsewhere)
                held.close()  # the other process ends without a result

        listener = Ender()
        failures = run_jobs([first, second], at_once=1, device=CPU, evaluations=3, watcher=listener)
    assert failures == []
    assert listener.events == [
        ("waiting", 0),
        ("started", 1),
        ("finished", 1),
        ("started", 0),
        ("finished", 0),
    ]
    assert [first.state, second.state] == ["done", "done"]


def test_a_run_that_another_process_finishes_is_waited_for_and_not_done_again(two_runs, tmp_path):
    """The other process is played by a copy of its result."""
    (job,) = jobs(tmp_path, QUICK)
    done = two_runs[0] / "runs" / job.folder.name
    with ExitStack() as held:
        held.enter_context(RunFolder(job.folder).locked())

        class Finisher(Listener):
            def waiting(self, job):
                super().waiting(job)
                shutil.copytree(done, job.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".lock"))
                held.close()

        listener = Finisher()
        assert run_jobs([job], at_once=1, device=CPU, evaluations=3, watcher=listener) == []
    assert listener.events == [("waiting", 0), ("elsewhere", 0)]


@pytest.mark.slow
def test_a_child_that_finds_its_folder_held_waits_as_well(tmp_path, monkeypatch):
    """Two commands start the same run at the same moment: neither sees the other's lock before it starts."""
    (job,) = jobs(tmp_path, QUICK)
    holder = RunFolder(job.folder)
    seen = []

    def is_held(self):
        seen.append(self)
        return False if len(seen) == 1 else locked and len(seen) < 4

    monkeypatch.setattr(type(job), "is_held", property(is_held))
    locked = True
    with ExitStack() as held:
        held.enter_context(holder.locked())

        class Ender(Listener):
            def waiting(self, job):
                super().waiting(job)
                held.close()

        listener = Ender()
        assert run_jobs([job], at_once=1, device=CPU, evaluations=3, watcher=listener) == []
    assert listener.events == [("started", 0), ("waiting", 0), ("started", 0), ("finished", 0)]


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
    (failure,) = run_jobs([job], at_once=1, device=CPU, evaluations=3, watcher=killer)
    assert "was killed (SIGKILL), probably out of memory" in failure.reason
    assert list(tmp_path.rglob("*.log")) == []  # it had said nothing
    assert job.state == "interrupted"
    assert 2 <= len((job.folder / "generations.jsonl").read_text().splitlines()) < 60
    listener, failures = run([job])
    assert failures == []
    assert listener.moves[0][1] > 1
    assert job.state == "done"


BREAKS = """
import os
from torch import nn
def broken(num_classes, in_channels):
    if "BROKEN" in os.environ:
        print("the model says", "x" * 200_000, flush=True)
        os._exit(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * in_channels, num_classes))
"""


@pytest.mark.slow
def test_what_a_process_that_breaks_down_has_printed_is_kept_until_the_run_is_done(tmp_path, monkeypatch):
    (tmp_path / "breaks_down.py").write_text(BREAKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    (job,) = jobs(tmp_path, QUICK.replace(model="breaks_down:broken"))
    monkeypatch.setenv("BROKEN", "1")
    _, (failure,) = run([job])
    log = job.folder.with_name(f"{job.folder.name}.log")
    assert failure.reason.startswith("its process ended with exit code 3: ")
    assert failure.reason.endswith(f"(the rest is in runs/{log.name})")
    assert log.stat().st_size <= 100_001
    monkeypatch.delenv("BROKEN")
    assert run([job])[1] == []
    assert not log.exists()


@pytest.mark.slow
def test_a_comparison_needs_no_signal_pipe_or_module_that_windows_lacks(tmp_path):
    """windows.py: a comparison that is interrupted and continued, one whose run breaks down, and two workers."""
    done = subprocess.run(
        [sys.executable, "windows.py", tmp_path],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found.pop("places") > 15
    assert "1 of 1 runs are not finished. Rerun the command" in found.pop("interrupted")
    assert 1 <= found.pop("generations")[0] < 100
    assert found == {
        "left behind": 0,
        "finished": 1,
        "failures": [],
        "broken": ["its process ended with exit code 3"],
        "workers": 2,
    }


SLEEPS = """
import os, time
from torch import nn
def net(num_classes, in_channels):
    time.sleep(30 if "SLEEPS" in os.environ else 0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * in_channels, num_classes))
"""


def test_a_run_that_is_still_being_prepared_is_not_waited_for_when_all_are_interrupted(tmp_path, monkeypatch):
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    (job,) = jobs(tmp_path, QUICK.replace(model="sleeps:net"))
    monkeypatch.setenv("SLEEPS", "1")

    class Interrupter(Listener):
        def started(self, job):
            super().started(job)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(InterruptedRun, match="1 of 1 runs are not finished"):
        run_jobs([job], at_once=1, device=CPU, evaluations=3, watcher=Interrupter())
    assert job.state == "to do"  # a run that had been waited for would have done a generation
    assert multiprocessing.active_children() == []


SCRIPT = """
import sys, torch
from pathlib import Path
from test_processes import Listener, jobs, QUICK
from gradlex.experiments import run_jobs
from gradlex.errors import InterruptedRun
if __name__ == "__main__":
    prepared = jobs(Path(sys.argv[1]), *(QUICK.replace(seed=s, generations=int(sys.argv[2])) for s in range(3)))
    try:
        run_jobs(prepared, at_once=2, device=torch.device("cpu"), evaluations=3, watcher=Listener())
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
    call = [sys.executable, str(script), str(tmp_path / "root"), "120"]
    process = subprocess.Popen(
        call, env=paths, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started = time.monotonic()
    while len({path.parent for path in tmp_path.glob("root/runs/*/checkpoint/*")}) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - started < 100
        time.sleep(0.05)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "3 of 3 runs are not finished. Rerun the command to continue; finished runs are skipped." in out

    prepared = jobs(tmp_path / "root", *(QUICK.replace(seed=s, generations=120) for s in range(3)))
    states = sorted(job.state for job in prepared)
    assert states == ["interrupted", "interrupted", "to do"]
    run(prepared[:1])
    (alone,) = jobs(tmp_path / "alone", QUICK.replace(generations=120))
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
    while not list(tmp_path.glob("root/runs/*/checkpoint/*0002*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    time.sleep(2)
    counts = [np.sum([len(p.read_bytes()) for p in tmp_path.glob("root/runs/*/generations.jsonl")])]
    time.sleep(2)
    counts.append(np.sum([len(p.read_bytes()) for p in tmp_path.glob("root/runs/*/generations.jsonl")]))
    assert counts[0] == counts[1]
