"""Processes with a watchdog, and the results of the four that try out many recipes in one start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

HERE = Path(__file__).parent
LIMIT = 300  # seconds after which a process counts as hanging; on an idle machine none takes a quarter of it


class Group:
    """Processes in a process group of their own, so that none of their children can outlive a test."""

    def __init__(
        self,
        arguments: Sequence[str],
        cwd: Path,
        output: Path,
        within: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "GLOO_SOCKET_IFNAME": "lo"}
        self._out, self._err = output.with_suffix(".out"), output.with_suffix(".err")
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(
                [*within, sys.executable, *arguments],
                cwd=cwd,
                env={name: value for name, value in environment.items() if name not in without},
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait(self, seconds: float = LIMIT) -> int:
        """The exit code; fails the test, with what was printed, where there is none in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {seconds} s; it printed:\n{self.out}\n{self.err}")

    @property
    def out(self) -> str:
        return self._out.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self._err.read_text(encoding="utf-8")

    def members(self) -> list[int]:
        """The processes of the group that are still there; one that has ended and waits for its parent is not."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended in the meantime
                state, _, group = path.read_text().rpartition(")")[2].split()[:3]
                if int(group) == self.process.pid and state != "Z":
                    found.append(int(path.parent.name))
        return found

    def is_gone(self, seconds: float = 30) -> bool:
        """Whether every process of the group ends by itself in this time."""
        deadline = time.monotonic() + seconds
        while self.members():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()  # torchrun's ranks are in groups of their own: it must end them itself
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(40)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Group]]:
    """Starts this Python, `within` another command perhaps, in a process group that the end of the module kills."""
    groups: list[Group] = []
    folder = tmp_path_factory.mktemp("processes")

    def run(*arguments: str | Path, cwd: Path = HERE, **more: Sequence[str]) -> Group:
        groups.append(Group([str(word) for word in arguments], cwd, folder / str(len(groups)), **more))
        return groups[-1]

    yield run
    for group in groups:
        group.kill()


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset for the command: 96 images (4, 4) of 3 classes."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 96)
    x = (60 * y[:, None, None] + rng.integers(0, 130, (96, 4, 4))).astype(np.uint8)
    path = tmp_path_factory.mktemp("data") / "images.npz"
    np.savez(path, x_train=x[:72], y_train=y[:72], x_test=x[72:], y_test=y[72:])
    return path


@pytest.fixture(scope="module")
def found(start: Callable[..., Group], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """What ranks.py wrote under a name."""
    folder = tmp_path_factory.mktemp("ranks")
    groups = [start("-W", "error", "ranks.py", str(rank), folder) for rank in range(4)]
    for group in groups:
        assert group.wait() == 0, group.err
    return lambda name: torch.load(folder / f"{name}.pt", weights_only=False)
