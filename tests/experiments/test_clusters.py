"""Experiments on clusters: the same folders, the same bits and the same results as in processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from gradlex import InputError, Recipe
from gradlex.experiments import Cell, Resources, prepare, run_jobs
from gradlex.experiments._remote import Progress, run_there
from gradlex.experiments._run_job import Finished, Settings

pytestmark = [  # submitit leaves the files of its logs open
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CPU = torch.device("cpu")
QUICK = Recipe(train_size=60, generations=3, threads=1, population=2, batch_size=10, model="mlp", width=0.1)
SMOKE = ("paper", "table2", "--scale", "smoke", "--seeds", "1", "--methods", "sgd", "lexicase")


class Listener:
    def __init__(self):
        self.events, self.moves = [], []

    def started(self, job):
        self.events.append("started")

    def moved(self, job, generations):
        self.moves.append(generations)

    def waiting(self, job):
        self.events.append("waiting")

    def finished(self, job, *, elsewhere=False):
        self.events.append("finished")

    def failed(self, failure):
        self.events.append(failure.reason)


def run(root, on, **options):
    jobs = prepare([Cell(method="lexicase", recipe=QUICK)], root, device=CPU)
    listener = Listener()
    failures = run_jobs(
        jobs, at_once=1, device=CPU, evaluations=1, watcher=listener, on=on, on_options=options or None
    )
    return jobs[0], listener, failures


@pytest.mark.slow
def test_slurms_debug_executor_gives_the_files_that_processes_give(tmp_path):
    pytest.importorskip("submitit")
    there, heard, failures = run(tmp_path / "slurm", "slurm", cluster="debug", logs=str(tmp_path / "logs"))
    assert failures == []
    assert heard.events == ["started", "finished"]
    assert heard.moves[-1] == 3
    here, _, _ = run(tmp_path / "processes", "processes")
    assert there.folder.name == here.folder.name
    assert sorted(p.name for p in there.folder.parent.iterdir()) == [here.folder.name]
    weights = [(job.folder / "model.safetensors").read_bytes() for job in (there, here)]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_slurms_local_executor_runs_a_job_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("submitit")
    job, _, failures = run(tmp_path / "runs", "slurm", cluster="local", logs=str(tmp_path / "logs"))
    assert failures == []
    assert json.loads((job.folder / "result.json").read_text())["generations"] == 3


def test_a_run_that_is_refused_on_a_cluster_is_a_failure_with_its_reason(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    jobs = prepare([Cell(method="lexicase", recipe=QUICK)], tmp_path / "runs", device=CPU)
    monkeypatch.setattr("gradlex.data.Arrays.fingerprint", lambda self: "another")
    listener, options = Listener(), {"cluster": "debug", "logs": str(tmp_path / "logs")}
    (failure,) = run_jobs(jobs, at_once=1, device=CPU, watcher=listener, on="slurm", on_options=options)
    assert "has changed since the experiment began" in failure.reason


@pytest.mark.parametrize(("on", "extra", "module"), [("ray", "ray", "ray"), ("slurm", "slurm", "submitit")])
def test_a_library_that_is_not_installed_is_named_with_its_extra(on, extra, module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"pip install 'gradlex\[{extra}\]'"):
        run(tmp_path, on)
    assert not (tmp_path / "runs").exists()


def test_options_of_a_cluster_are_refused_without_one(tmp_path):
    with pytest.raises(InputError, match="on_options belong to a cluster"):
        run(tmp_path, "processes", address="auto")


def test_options_that_a_cluster_does_not_have_are_refused(tmp_path):
    pytest.importorskip("submitit")
    with pytest.raises(InputError, match="--on slurm cannot be used so"):
        run(tmp_path, "slurm", cluster="debug", colour="red", logs=str(tmp_path / "logs"))


def test_options_that_ray_does_not_have_are_refused(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="--on ray has no option 'adress'"):
        run(tmp_path, "ray", adress="auto")


def test_a_run_that_is_asked_to_end_while_it_is_queued_does_not_begin(tmp_path):
    (job,) = prepare([Cell(method="lexicase", recipe=QUICK)], tmp_path / "runs", device=CPU)
    progress = Progress(job)
    progress.end()
    assert run_there(job, Settings(device="cpu")) is None
    assert not job.folder.exists()
    progress.over()
    assert run_there(job, Settings(device="cpu")) == Finished()


def test_an_unknown_place_is_refused():
    with pytest.raises(InputError, match="on must be"):
        Resources(on="moon")


def command(out: Path, *more: str) -> subprocess.Popen[bytes]:
    log = open(out.with_suffix(".log"), "ab")  # noqa: SIM115  # the process's own
    return subprocess.Popen(
        [sys.executable, "-m", "gradlex", *SMOKE, "--out", out, *more],
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
    )


def session(leader: int) -> list[int]:
    """Every process that a command has started: a local Ray cluster has groups of its own within its session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended in the meantime
            continue
        if int(fields[3]) == leader:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.slow
def test_a_ray_cluster_that_is_killed_whole_continues_to_the_results_of_processes(tmp_path):
    pytest.importorskip("ray")
    plain = command(tmp_path / "processes")
    assert plain.wait(1800) == 0, (tmp_path / "processes.log").read_text()

    out = tmp_path / "ray"
    first = command(out, "--on", "ray")
    deadline = time.monotonic() + 1800
    while not any(path.read_text().count("\n") for path in out.glob("runs/*/generations.jsonl")):
        assert first.poll() is None, out.with_suffix(".log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for process in session(first.pid):  # head, raylet, workers and the command, all at once
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    first.wait()
    assert len(list(out.glob("runs/*/result.json"))) < len(
        list((tmp_path / "processes").glob("runs/*/result.json"))
    )

    again = command(out, "--on", "ray")
    assert again.wait(1800) == 0, out.with_suffix(".log").read_text()
    runs = {path.parent.name: path for path in (tmp_path / "processes").glob("runs/*/model.safetensors")}
    assert len(runs) == 2
    for name, path in runs.items():
        assert (out / "runs" / name / "model.safetensors").read_bytes() == path.read_bytes()
        for file in ("recipe.json", "evaluations.jsonl"):
            assert (out / "runs" / name / file).exists()
