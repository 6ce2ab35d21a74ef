"""What a generation of Population costs beyond the training and evaluation in the caller's loop.

    python benchmarks/overhead.py

Runs the same loop with and without gradlex in turns: a network that is trained and evaluated by hand, with nothing
dealt out, swapped or selected, against `Population`. Prints the median over turns of CPU seconds of one thread, which
other load disturbs less than wall-clock time.
"""

import copy
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from gradlex import Population, models

SIZE, TURNS, BATCH = 4, 7, 32


def run(name: str, sample: tuple[int, ...], samples: int, epochs: int) -> tuple[float, float]:
    """The seconds of a generation of the plain loop, and what gradlex adds."""
    model = models.build(name, sample=sample, outputs=10)
    x, y = torch.randn(samples, *sample), torch.randint(10, (samples,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    population = Population(model, optimizer, size=SIZE)
    plain = copy.deepcopy(model)
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.01, momentum=0.9)
    parts = np.array_split(np.random.permutation(samples), SIZE)
    asked: list[np.ndarray] = []

    def train(network: nn.Module, optimizer: torch.optim.Optimizer, part: np.ndarray) -> None:
        network.train()
        for batch in torch.from_numpy(part).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(network(x[batch]), y[batch]).backward()
            optimizer.step()

    def errors(cases: np.ndarray) -> torch.Tensor:
        asked.append(cases)
        return model(x[cases]).argmax(dim=1) != y[cases]

    def with_gradlex() -> None:
        for candidate in population.candidates(samples):
            train(model, optimizer, candidate.indices)
        population.select(errors, samples)

    def without() -> None:
        for part in parts:
            train(plain, plain_optimizer, part)

    def evaluate_alone() -> None:
        plain.eval()
        with torch.no_grad():
            for cases in asked:
                _ = (plain(x[cases]).argmax(dim=1) != y[cases]).numpy()

    pairs = []
    for turn in range(TURNS + 1):
        asked.clear()
        took = seconds(with_gradlex, epochs)
        needed = seconds(without, epochs) + seconds(evaluate_alone, 1)
        if turn:  # the first turn warms up
            pairs.append((needed / epochs, (took - needed) / epochs))
    return statistics.median(needed for needed, _ in pairs), statistics.median(added for _, added in pairs)


def seconds(body: Callable[[], None], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        body()
    return time.process_time() - started


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, sample, samples, epochs in (
        ("mlp", (64,), 1440, 20),
        ("small-cnn", (1, 8, 8), 1440, 5),
        ("resnet20", (3, 32, 32), 512, 1),
    ):
        plain, added = run(name, sample, samples, epochs)
        print(
            f"{name:10} {1000 * plain:7.1f} ms a generation, gradlex adds {1000 * added:5.2f} ms, {added / plain:+.1%}"
        )
