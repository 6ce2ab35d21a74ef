"""Runs of a regression and of a network with named inputs, as a script of a user's would start them.

`forks.py` calls `main` in place of the command where the first word is `regression` or `names`.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch
from torch import Tensor, nn

import gradlex
from gradlex import Recipe, RunError


class Named(nn.Module):
    """Takes two inputs by their names; batch norm and dropout make the order of everything matter."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(3, 8), nn.Linear(2, 8)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.2)
        self.head = nn.Linear(8, outputs)

    def forward(self, *, left: Tensor, right: Tensor) -> Tensor:
        return self.head(self.drop(self.norm(self.left(left) + self.right(right)).relu()))


class Joined(Named):
    """The same of one tensor."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(left=x[:, :3], right=x[:, 3:])


PROBLEMS = ("regression", "names")


def problem(kind: str) -> tuple[nn.Module, tuple[Any, Tensor], str]:
    """A network, 80 samples and the task."""
    numbers = torch.Generator().manual_seed(1)
    x, noise = torch.randn(80, 5, generator=numbers), torch.randn(80, generator=numbers)
    value = 100 * (x[:, 0] - x[:, 3]) + 20 * noise
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        if kind == "regression":
            return Joined(1), (x, value), "regression"
        return Named(2), ({"left": x[:, :3], "right": x[:, 3:]}, (value > 0).long()), "classification"


def main(words: list[str]) -> None:
    """Train five generations of three candidates; says as the command does what went wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=PROBLEMS)
    parser.add_argument("--out", required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--momentum", required=True)
    for name in ("--workers", "--threads"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args(words)
    network, data, task = problem(given.kind)
    recipe = Recipe(
        population=3, batch_size=16, generations=5, lr=0.05, threads=given.threads, momentum=given.momentum
    )
    how = {"out": given.out, "resume": given.resume, "workers": given.workers}
    try:
        gradlex.train(network, data, recipe, test=data, task=task, **how)
    except RunError as error:
        sys.stderr.write(f"gradlex: {error}\n")
        sys.exit(1)
