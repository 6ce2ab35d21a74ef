"""What a generation of Population costs beyond the training and evaluation in the caller's loop.

    python benchmarks/overhead.py

Runs the same loop with and without gradlex in turns: copies of the network that are trained and evaluated by hand,
with nothing dealt out, swapped or selected, against `Population`. Prints the median ratio for each network.
"""

import copy
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from gradlex import Population, models

SIZE, TURNS = 4, 7


def smallest() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), torch.randn(1440, 64)


def resnet20() -> tuple[nn.Module, torch.Tensor]:
    return models.build("resnet20", num_classes=10, in_channels=3), torch.randn(256, 3, 32, 32)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor, part: np.ndarray
) -> None:
    model.train()
    for batch in torch.from_numpy(part).split(32):
        optimizer.zero_grad()
        F.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()


def measure(make, epochs: int) -> float:
    model, x = make()
    y = torch.randint(10, (len(x),))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    population = Population(model, optimizer, size=SIZE)
    plain = copy.deepcopy(model)
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.01, momentum=0.9)
    ratios = []
    for _ in range(TURNS):
        asked: list[np.ndarray] = []

        def errors(cases: np.ndarray, asked: list[np.ndarray] = asked) -> torch.Tensor:
            asked.append(cases)
            return model(x[cases]).argmax(dim=1) != y[cases]

        started = time.perf_counter()
        for _ in range(epochs):
            for candidate in population.candidates(len(x)):
                train(model, optimizer, x, y, candidate.indices)
            population.select(errors, len(x))
        with_gradlex = time.perf_counter() - started

        parts = np.array_split(np.random.permutation(len(x)), SIZE)
        started = time.perf_counter()
        for _ in range(epochs):
            for part in parts:
                train(plain, plain_optimizer, x, y, part)
        plain.eval()
        with torch.no_grad():
            for cases in asked:
                _ = (plain(x[cases]).argmax(dim=1) != y[cases]).numpy()
        ratios.append(with_gradlex / (time.perf_counter() - started))
    return statistics.median(ratios)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for make, epochs in ((smallest, 20), (resnet20, 1)):
        print(f"{make.__name__:10} {100 * (measure(make, epochs) - 1):+.1f}% of the time of the plain loop")
