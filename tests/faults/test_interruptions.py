"""Runs that are interrupted again and again, anyhow and at any moment, end byte for byte as the undisturbed one."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import time

import pytest

COMMAND = (
    "train", "--model", "mlp", "--width", "0.05", "--train-size", 80, "--population", 3, "--batch-size", 16,
    "--generations", 60, "--threads", 1, "--momentum", "inherit", "--checkpoint-every", 3, "--evaluate-every", 20,
)  # fmt: skip
INTERRUPTIONS = 200
SECONDS = 600  # for one sitting, on a machine that has much else to do
ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}


@pytest.fixture(scope="module")
def whole(forks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    forks.run(*COMMAND, "--workers", 1, "--out", folder)
    return folder


class Sittings:
    """Runs one folder after another to its end, and disturbs every sitting."""

    def __init__(self, forks, group, until, folder, seed):
        self._forks, self._group, self._until, self._folder = forks, group, until, folder
        self._rng = random.Random(seed)
        self._temporary = folder / "temporary"
        self._temporary.mkdir()
        self.interruptions = 0

    def complete(self, run, most):
        """Start and disturb sittings until the run is complete, or there were so many interruptions."""
        while self.interruptions < most:
            if self._sit(run):
                return True
        return False

    def _sit(self, run):
        workers, who = self._rng.choice([1, 2, 3]), self._rng.choice(["leader", "worker", "group"])
        number = signal.SIGKILL if who == "worker" else self._rng.choice(list(ENDS))
        delay = self._rng.choice([self._rng.uniform(0, 0.5), self._rng.uniform(0, 4)])
        child = self._forks.start(
            *COMMAND, "--workers", workers, "--out", run, "--resume",
            temporary=str(self._temporary), seconds=SECONDS,
        )  # fmt: skip
        time.sleep(delay)
        hit = self._disturb(child.pid, who, number)
        code = child.wait()
        told = (workers, who, number, delay, code, child.err)
        assert "Traceback" not in child.err, told
        ends = (1,) if who == "worker" else (ENDS[number], -number)  # the latter before it hears signals
        assert code in ((0, *ends) if hit else (0,)), told
        if who == "worker" and code == 1:
            assert "was killed (SIGKILL)" in child.err, told
        self._until(lambda: self._group(child.pid) == [], 60)
        self.interruptions += code != 0
        return code == 0

    def _disturb(self, leader, who, number):
        """Send the signal; whether there was somebody to receive it."""
        members = self._group(leader)
        workers = [pid for pid in members if pid != leader and "spawn_main" in _command_line(pid)]
        if who == "worker" and not workers:
            return False
        try:
            if who == "group":
                os.killpg(leader, number)
            else:
                os.kill(leader if who == "leader" else self._rng.choice(workers), number)
        except ProcessLookupError:
            return False
        return True


def _command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


@pytest.mark.parametrize("interruptions", [7, pytest.param(INTERRUPTIONS, marks=pytest.mark.slow)])
def test_interrupted_at_random_and_resumed(interruptions, forks, group, until, whole, outcome, tmp_path):
    sittings = Sittings(forks, group, until, tmp_path, seed=interruptions)
    for number in itertools.count():
        run = tmp_path / f"run{number}"
        if not sittings.complete(run, interruptions):
            forks.run(
                *COMMAND, "--workers", 2, "--out", run, "--resume",
                temporary=str(tmp_path / "temporary"), seconds=SECONDS,
            )  # fmt: skip
        assert outcome(run) == outcome(whole)
        assert not list(run.rglob("*.new"))
        assert not list(run.rglob("*.damaged"))
        shutil.rmtree(run)
        print(f"\n{sittings.interruptions} interruptions of {number + 1} runs", flush=True)
        if sittings.interruptions >= interruptions:
            break
    # A whole group that was killed leaves its meeting place to the next run with workers, which sweeps it.
    assert list((tmp_path / "temporary").iterdir()) == []
