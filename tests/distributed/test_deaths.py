"""A rank that fails or dies ends the whole run at once, with its own words, and leaves no process behind."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from multiprocessing import Pipe

import pytest

from gradlex import RunError
from gradlex.runs._local_workers import _check, _Worker


@pytest.fixture(scope="module")
def train(start, archive, tmp_path_factory):
    """Starts the command; returns its processes and its run folder."""

    def run(network, population, workers, generations=4):
        folder = tmp_path_factory.mktemp(network) / "run"
        flags = {
            "model": f"networks:{network}",
            "population": population,
            "workers": workers,
            "generations": generations,
            "dataset": archive,
            "batch-size": 8,
            "threads": 1,
            "out": folder,
        }
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        return start("-m", "gradlex", "train", *words), folder

    return run


@pytest.fixture(scope="module")
def failing(train):
    """The runs that fail, started at the same time: most of it is importing torch."""
    sizes = {"Failing": (3, 3), "Killed": (3, 3), "Together": (1, 2), "Orphaned": (2, 2)}
    return {network: train(network, *size) for network, size in sizes.items()}


def assert_failed(group, folder, told):
    assert group.wait() == 1, group.err
    assert told in group.err
    assert group.err.count("gradlex: ") == 1
    assert "Traceback" not in group.err
    assert group.is_gone()
    assert not (folder / "result.json").exists()


def test_a_failing_candidate_is_told_with_its_generation_and_not_what_follows_from_it(failing):
    # Each candidate has three batches a generation; ranks 0 and 1 lose their connection because of rank 2.
    group, folder = failing["Failing"]
    told = "gradlex: candidate 2 of generation 1 failed: RuntimeError: the third wheel came off (in "
    assert_failed(group, folder, told)
    assert "networks.py" in group.err
    lines = (folder / "generations.jsonl").read_text().splitlines()
    assert [json.loads(line)["generation"] for line in lines] == [0]


def test_a_worker_killed_by_the_system_ends_the_run(failing):
    assert_failed(*failing["Killed"], "gradlex: worker 2 was killed (SIGKILL)")


def test_a_failure_in_one_process_of_a_candidate_is_told_as_it_was(failing):
    told = "gradlex: candidate 0 of generation 0 failed: RuntimeError: the third wheel came off"
    assert_failed(*failing["Together"], told)


def test_workers_end_when_the_leading_process_is_killed(failing):
    group, _ = failing["Orphaned"]
    assert group.wait() == -signal.SIGKILL, group.err
    assert group.is_gone()


class Ended:
    """A worker that has ended with this code."""

    def __init__(self, exitcode):
        self.exitcode = exitcode


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        ([(75, None), (1, (2.0, "the cause")), (1, (3.0, "what follows"))], "the cause"),
        ([(1, (3.0, "what follows")), (75, None), (1, (2.0, "the cause"))], "the cause"),
        ([(75, None), (None, None), (-9, None)], "worker 3 was killed (SIGKILL)"),
        ([(0, None), (-11, None)], "worker 2 ended unexpectedly with exit code -11"),
        ([(75, None), (0, None)], "lost its connection"),
        ([(0, None), (None, None)], None),
    ],
)
def test_of_all_that_went_wrong_the_cause_is_told(workers, told):
    pipes = [Pipe(duplex=False) for _ in workers]
    others = []
    for (code, report), (ours, theirs) in zip(workers, pipes, strict=True):
        if report is not None:
            theirs.send(report)
        if code is not None:
            theirs.close()
        others.append(_Worker(rank=len(others) + 1, process=Ended(code), reports=ours, lifeline=theirs))
    if told is None:
        _check(others)
    else:
        with pytest.raises(RunError, match=re.escape(told)):
            _check(others)
    for pipe in pipes:
        for end in pipe:
            end.close()


@pytest.mark.slow
def test_a_signal_to_all_processes_ends_the_run_as_one_to_the_first_does(train):
    group, folder = train("Sound", 3, 2, generations=100_000)
    deadline = time.monotonic() + 60
    while not (folder / "generations.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(group.process.pid, signal.SIGTERM)
    assert group.wait() == 128 + signal.SIGTERM, group.err
    assert "gradlex resume" in group.err
    assert group.is_gone()
