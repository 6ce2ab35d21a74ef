"""A worker that dies: the run ends promptly with an error, and resumes to the same answer; torchrun does it alone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

TOGETHER = ("--workers", 2)


def children(pid):
    """The workers of a process: its children that are not Python's own resource tracker."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return [child for child in found if "resource_tracker" not in Path(f"/proc/{child}/cmdline").read_text()]


@pytest.mark.parametrize(
    "train",
    ["command", "names", pytest.param("regression", marks=pytest.mark.slow)],
    indirect=True,
)
def test_a_killed_worker_ends_the_run_promptly_and_it_resumes_to_the_same_answer(
    forks, train, undisturbed, outcome, fault, until, tmp_path
):
    folder = tmp_path / "run"
    # Rank 0 stops before its fifth batch, in the second generation or later; meanwhile its worker is killed.
    stopped = [fault(folder, "train", 5, action=signal.SIGSTOP)]
    first = forks.start(
        *train[:-6], "--threads", 1, "--momentum", "inherit", *TOGETHER, "--out", folder, faults=stopped
    )
    until(lambda: "State:\tT" in Path(f"/proc/{first.pid}/status").read_text(), 120)
    (worker,) = children(first.pid)
    os.kill(worker, signal.SIGKILL)
    began = time.monotonic()
    first.kill(signal.SIGCONT)
    assert first.wait() == 1
    assert time.monotonic() - began < 15
    assert first.err.startswith("gradlex: worker 1 was killed (SIGKILL), probably out of memory")
    assert "Traceback" not in first.err
    assert len(first.err.splitlines()) == 1
    assert (folder / "checkpoint").exists()
    forks.run(*train, "--out", folder, "--resume")
    assert outcome(folder) == outcome(undisturbed)


HOLDS = """
import multiprocessing
from torch import distributed, nn

class Net(nn.Module):
    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.head = nn.Linear(64, num_classes)

    def forward(self, x):
        if distributed.is_initialized() and distributed.get_rank() == 1 and not held:
            held.append(multiprocessing.get_context("spawn").Semaphore())
        return self.head(x.flatten(1))

held = []
"""


def test_a_worker_leaves_no_semaphore_to_be_warned_of(start, train, tmp_path):
    """torch.compile makes some."""
    (tmp_path / "holds.py").write_text(HOLDS)
    command = ("-m", "gradlex", "train", "--model", "holds:Net", *train[5:], *TOGETHER, "--out", "run")
    process = start(*command, cwd=tmp_path)
    _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")


DIES_ONCE = """
import os, signal
from pathlib import Path
from torch import distributed, nn

class Net(nn.Module):
    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.head = nn.Linear(64, num_classes)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if distributed.is_initialized() and distributed.get_rank() == RANK and self.calls == 20:
            died = Path(f"died-{RANK}")
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return self.head(x.flatten(1))

"""


@pytest.mark.parametrize("rank", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_torchrun_restarts_a_run_whose_process_died_and_it_finishes_by_itself(
    rank, start, forks, outcome, tmp_path
):
    (tmp_path / "dies.py").write_text(DIES_ONCE.replace("RANK", str(rank)))
    arguments = (
        "train", "--model", "dies:Net", "--train-size", 80, "--population", 2, "--batch-size", 8,
        "--generations", 6, "--threads", 1, "--momentum", "inherit", "--resume",
    )  # fmt: skip
    process = start(
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--max-restarts", 2,
        "-m", "gradlex", *arguments, "--out", "run",
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert (tmp_path / f"died-{rank}").exists()
    forks.run(*arguments, "--workers", 1, "--out", "alone", cwd=tmp_path)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")
