"""What a generation of Population costs beyond the training and evaluation in the caller's loop.

    python benchmarks/overhead.py

Runs the same loop with and without gradlex in turns: a network that is trained and evaluated by hand, with nothing
dealt out, swapped or selected, against `Population`. Prints the median and the quartiles over turns of CPU seconds of
one thread, which other load disturbs less than wall-clock time. Memory is the tensors that are alive when all
candidates are trained, in copies of the weights beyond the plain loop's.
"""

import copy
import gc
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from gradlex import Population, models

SIZE, TURNS, BATCH = 4, 20, 32


def run(name: str, sample: tuple[int, ...], samples: int, epochs: int) -> tuple[float, list[float], float]:
    """The seconds of a generation of the plain loop, the quartiles of what gradlex adds, and the memory it adds."""
    model = models.build(name, sample=sample, outputs=10)
    x, y = torch.randn(samples, *sample), torch.randint(10, (samples,))
    weights = sum(tensor.nbytes for tensor in model.state_dict().values())
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

    with_gradlex()
    before = alive()
    for candidate in population.candidates(samples):
        train(model, optimizer, candidate.indices)
    memory = (alive() - before) / weights - 1  # the last candidate's momentum belongs to the plain loop too
    population.restore()
    pairs = []
    for turn in range(TURNS + 1):
        asked.clear()
        bodies = {"with": with_gradlex, "without": without}
        took = {each: seconds(bodies[each], epochs) for each in (bodies if turn % 2 else reversed(bodies))}
        needed = took["without"] + seconds(evaluate_alone, 1)
        if turn:  # the first turn warms up
            pairs.append((needed / epochs, (took["with"] - needed) / epochs))
    plain_seconds, added = zip(*pairs, strict=True)
    return statistics.median(plain_seconds), statistics.quantiles(added), memory


def alive() -> int:
    """The bytes of all tensors."""
    gc.collect()
    found = [each for each in gc.get_objects() if type(each) in (torch.Tensor, nn.Parameter)]
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in found}.values())


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
        ("resnet20", (3, 32, 32), 1024, 1),
    ):
        plain, (low, middle, high), memory = run(name, sample, samples, epochs)
        shares = f"{middle / plain:+.1%} ({low / plain:+.1%} to {high / plain:+.1%})"
        print(f"{name:10} {1000 * plain:7.1f} ms a generation; gradlex adds {1000 * middle:5.2f} ms, {shares}", end="")
        print(f", and {memory:.1f} copies of the weights")
