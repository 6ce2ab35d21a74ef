"""How fast lexicase selection asks networks about cases, and what a whole selection takes by its depth.

Speed: all four candidates on slices of 256 cases through the engine, against one candidate on one picture at a
time in float32; with the same threads, in turns, in one run.

Depth: a whole selection that ends after 1, 10, ... cases. The networks compute every answer that the selection
asks for, but what it is told makes it end just there: all are right until then, and then all but one are wrong.

    python benchmarks/selection.py [--deepest 10000]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from _common import CLOCKS, archive, arguments, in_turns, machine, problem, ratio, worker

from gradlex.engine import PopulationEngine
from gradlex.models import build
from gradlex.population import split
from gradlex.runs import Problem
from gradlex.selection import CaseErrors, ErrorTable, Indices, lexicase

WANTED = {"resnet18": 4.0, "resnet20": 8.0}
POPULATION = 4


def main() -> int:
    parser = arguments(__doc__, clock=True)
    parser.add_argument("--models", nargs="+", choices=list(WANTED), default=list(WANTED))
    parser.add_argument("--cases", type=int, default=256, help="cases a turn")
    parser.add_argument("--singles", type=int, default=64, help="pictures a turn, one at a time")
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--deepest", type=int, default=10_000, help="the last depth; 0: none")
    asked = parser.parse_args()
    print(machine(), f"; {asked.threads} threads, {asked.clock} clock", sep="")
    samples = max(asked.deepest, asked.cases)
    met = True
    with archive(asked.dataset, samples) as path:
        print(f"{'case evaluations/s':20}{'one by one':>12}{'gradlex':>9}{'ratio':>7}{'wanted':>8}")
        for model in asked.models:
            met &= speed(population(model, path, samples, asked.threads), asked)
        if asked.deepest:
            depths(population("resnet20", path, samples, asked.threads), asked)
    return 0 if met else 1


def population(model: str, path: str, samples: int, threads: int) -> Problem:
    return problem(path, samples, model=model, threads=threads, population=POPULATION, batch_size=32)


def speed(ours: Problem, asked: Any) -> bool:
    model = ours.recipe.model
    asking = worker(ours)
    states = [asking.first_parent().state] * POPULATION
    cases = np.arange(asked.cases)
    plain = one_by_one(ours, asked.singles, asked.threads)
    sides = {"plain": plain, "gradlex": lambda: asking.errors(states, cases)}
    times = in_turns(sides, asked.repeats, asked.clock)
    theirs = [seconds / asked.singles for seconds in times["plain"]]
    mine = [seconds / (POPULATION * asked.cases) for seconds in times["gradlex"]]
    faster = ratio(theirs, mine)
    print(
        f"{model + ', ' + ours.recipe.precision:20}{1 / statistics.median(theirs):>12.1f}"
        f"{1 / statistics.median(mine):>9.1f}{faster:>7.2f}{WANTED[model]:>8}",
        flush=True,
    )
    return faster >= WANTED[model]


def one_by_one(ours: Problem, pictures: int, threads: int) -> Callable[[], object]:
    net = build(ours.recipe.model, num_classes=10).eval()  # in the default memory format
    inputs, targets = ours.train.clean(np.arange(pictures))
    inputs = inputs.contiguous()

    def run() -> None:
        torch.set_num_threads(threads)
        with torch.no_grad():
            for place in range(pictures):
                (net(inputs[place : place + 1]).argmax(dim=1) == targets[place]).item()

    return run


class Scripted:
    """The networks' errors, computed as they are asked for; what is told ends the selection at `depth`."""

    def __init__(self, errors: CaseErrors, depth: int) -> None:
        self._errors, self._depth = errors, depth
        self._told = 0
        self.candidates: Indices = errors.candidates
        self.memory: Mapping[str, Any] = errors.memory

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """The (pool, cases) errors as the script has them."""
        table = np.zeros_like(self._errors(cases, pool))
        place = self._depth - 1 - self._told
        self._told += len(cases)
        if 0 <= place < len(cases):
            table[1:, place] = 1
        return table

    def matrix(self) -> ErrorTable:
        """Not asked for by lexicase."""
        raise NotImplementedError


def depths(ours: Problem, asked: Any) -> None:
    engine = PopulationEngine(worker(ours))
    parent = engine.worker.first_parent()
    few = split(POPULATION * 32, POPULATION, np.random.default_rng(0))
    candidates = engine.train(parent, few, lr=0.01)
    order = np.random.default_rng(1).permutation(engine.num_cases)
    print(f"a selection of {ours.recipe.model}, {ours.recipe.precision}")
    print(f"{'depth':>8}{'seconds':>10}{'evaluations':>13}{'wasted':>8}")
    for depth in (d for d in (1, 10, 100, 1_000, 10_000) if d <= asked.deepest):
        times = []
        before = candidates.errors.evaluated
        repeats = 5 if depth < 1_000 else 1
        for _ in range(repeats):
            start = CLOCKS[asked.clock]()
            choice = lexicase(order, Scripted(candidates.errors, depth), np.random.default_rng(2))
            times.append(CLOCKS[asked.clock]() - start)
            assert (choice.cases_used, choice.reason) == (depth, "sole_survivor")
        evaluated = (candidates.errors.evaluated - before) // repeats
        wasted = 1 - POPULATION * depth / evaluated
        print(f"{depth:>8,}{statistics.median(times):>10.3f}{evaluated:>13,}{wasted:>8.0%}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
