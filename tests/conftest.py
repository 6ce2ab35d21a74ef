"""What many tests share: a tiny dataset, two tiny networks, spies, and one run made by a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

# Threads that wait give their CPU away: tests run side by side, and one that spins holds up what it waits for.
# torch reads it as it is imported, here and in every process that a test starts.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradlex import Recipe

Images = tuple[Tensor, Tensor]

torch.set_num_threads(1)  # of each of the processes that test side by side

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell's background job: tests send it to what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def images() -> Images:
    """50 noisy images (2, 4, 4) of 3 classes: learnable, but not at once."""
    rng = np.random.default_rng(7)
    y = torch.from_numpy(rng.integers(0, 3, 50))
    y[:3] = torch.arange(3)
    classes = rng.normal(size=(3, 2, 4, 4))
    x = torch.from_numpy(classes[y.numpy()] + rng.normal(size=(50, 2, 4, 4))).float()
    return x, y


@pytest.fixture
def signs() -> Images:
    """40 images (1, 2, 2) of +1 or -1 in every pixel: the class is the sign, and negating swaps it."""
    y = torch.arange(40) % 2
    return (2.0 * y - 1).view(-1, 1, 1, 1).expand(-1, 1, 2, 2).contiguous(), y


@pytest.fixture
def tiny_cnn() -> Callable[[], nn.Module]:
    """Makes a convolution with batch norm and a linear layer, always with the same weights."""

    def make() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            return nn.Sequential(
                nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
            )

    return make


@pytest.fixture
def tiny_dropout() -> Callable[[], nn.Module]:
    """Makes a linear network with dropout, always with the same weights."""

    def make() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(6)
            return nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))

    return make


class SignNet(nn.Module):
    """Knows the `signs` from the start: class 1 where the pixels are positive."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[-1.0] * 4, [1.0] * 4]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.flatten(1))


@pytest.fixture
def sign_net() -> nn.Module:
    return SignNet()


@pytest.fixture
def small() -> Recipe:
    """A resolved recipe of three candidates and two generations."""
    return Recipe(
        population=3, momentum="reset", generations=2, batch_size=8, precision="float32", threads=1, seed=1
    )


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute what the test writes out itself with the one thread that the recipes above have."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="session")
def same() -> Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], bool]:
    """Whether two states have the same names and the same bits."""
    return _same


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs this Python in a process of its own."""

    def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )

    return run


QUICK = (
    "train",
    "--model",
    "mlp",
    "--width",
    "0.1",
    "--train-size",
    "60",
    "--workers",
    "1",
    "--generations",
    "3",
)


@pytest.fixture(scope="session")
def quick() -> tuple[str, ...]:
    """The arguments of a command that trains for a fraction of a second."""
    return QUICK


@pytest.fixture(scope="session")
def command_run(
    python: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder and the output of `python -m gradlex train --seed 3`."""
    folder = tmp_path_factory.mktemp("command") / "run"
    return folder, python("-m", "gradlex", *QUICK, "--seed", "3", "--out", str(folder))
