"""How fast lexicase selection evaluates networks on cases, and how long a whole selection takes by its depth.

Speed: all four candidates on slices of 256 cases through the engine, with and without --fold-norm, against one
candidate on one image at a time in float32; with the same threads, in turns, in one run.

Depth: a whole selection that ends after 1, 10, ... cases. The networks are evaluated on every case that the selection
looks at, but their errors are replaced so that it ends just there: all are right before, then all but one are wrong.

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

MODELS = ("resnet18", "resnet20")
POPULATION = 4


def main() -> int:
    parser = arguments(__doc__, clock=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--cases", type=int, default=256, help="cases a turn")
    parser.add_argument("--singles", type=int, default=64, help="images a turn, one at a time")
    parser.add_argument("--precisions", nargs="+", default=["auto", "float32"])
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--deepest", type=int, default=10_000, help="the last depth; 0: none")
    given = parser.parse_args()
    print(machine(), f"; {given.threads} threads, {given.clock} clock", sep="")
    samples = max(given.deepest, given.cases, POPULATION * 32)
    with archive(given.dataset, samples) as path:
        print(
            f"{'case evaluations/s':20}{'one by one':>12}{'gradlex':>9}{'ratio':>7}{'folded':>9}{'ratio':>7}"
        )
        for model in given.models:
            for precision in given.precisions:
                speed(
                    *(population(model, path, samples, given, precision, fold) for fold in (False, True)),
                    given,
                )
        if given.deepest:
            depths(population("resnet20", path, samples, given, "auto"), given)
    return 0


def population(
    model: str, path: str, samples: int, given: Any, precision: str, fold: bool = False
) -> Problem:
    return problem(
        path,
        samples,
        model=model,
        threads=given.threads,
        population=POPULATION,
        batch_size=32,
        precision=precision,
        fold_norm=fold,
    )


def speed(ours: Problem, folded: Problem, given: Any) -> None:
    model = ours.recipe.model
    evaluator, folding = worker(ours), worker(folded)
    states = [evaluator.first_parent().state] * POPULATION
    cases = np.arange(given.cases)
    plain = one_by_one(ours, given.singles, given.threads)
    sides = {
        "plain": plain,
        "gradlex": lambda: evaluator.errors(states, cases),
        "folded": lambda: folding.errors(states, cases),
    }
    times = in_turns(sides, given.repeats, given.clock)
    theirs = [seconds / given.singles for seconds in times["plain"]]
    mine = [seconds / (POPULATION * given.cases) for seconds in times["gradlex"]]
    faster = ratio(theirs, mine)
    print(
        f"{model + ', ' + ours.recipe.precision:20}{1 / statistics.median(theirs):>12.1f}"
        f"{1 / statistics.median(mine):>9.1f}{faster:>7.2f}"
        f"{POPULATION * given.cases / statistics.median(times['folded']):>9.1f}"
        f"{ratio(times['gradlex'], times['folded']):>7.2f}",
        flush=True,
    )


def one_by_one(ours: Problem, images: int, threads: int) -> Callable[[], object]:
    net = build(ours.recipe.model, num_classes=10).eval()  # in the default memory format
    inputs, targets = ours.train.clean(np.arange(images))
    inputs = inputs.contiguous()

    def run() -> None:
        torch.set_num_threads(threads)
        with torch.no_grad():
            for place in range(images):
                (net(inputs[place : place + 1]).argmax(dim=1) == targets[place]).item()

    return run


class Scripted:
    """Evaluates the networks, and returns errors that end the selection at `depth`."""

    def __init__(self, errors: CaseErrors, depth: int) -> None:
        self._errors, self._depth = errors, depth
        self._seen = 0
        self.candidates: Indices = errors.candidates
        self.memory: Mapping[str, Any] = errors.memory

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """The scripted (pool, cases) errors."""
        table = np.zeros_like(self._errors(cases, pool))
        place = self._depth - 1 - self._seen
        self._seen += len(cases)
        if 0 <= place < len(cases):
            table[1:, place] = 1
        return table

    def matrix(self) -> ErrorTable:
        """Lexicase does not need it."""
        raise NotImplementedError


def depths(ours: Problem, given: Any) -> None:
    engine = PopulationEngine(worker(ours))
    parent = engine.worker.first_parent()
    few = split(POPULATION * 32, POPULATION, np.random.default_rng(0))
    candidates = engine.train(parent, few, lr=0.01)
    order = np.random.default_rng(1).permutation(engine.num_cases)
    print(f"a selection of {ours.recipe.model}, {ours.recipe.precision}")
    print(f"{'depth':>8}{'seconds':>10}{'evaluations':>13}{'wasted':>8}")
    for depth in (d for d in (1, 10, 100, 1_000, 10_000) if d <= given.deepest):
        times = []
        before = candidates.errors.evaluated
        repeats = 5 if depth < 1_000 else 1
        for _ in range(repeats):
            start = CLOCKS[given.clock]()
            choice = lexicase(order, Scripted(candidates.errors, depth), np.random.default_rng(2))
            times.append(CLOCKS[given.clock]() - start)
            assert (choice.cases_used, choice.reason) == (depth, "sole_survivor")
        evaluated = (candidates.errors.evaluated - before) // repeats
        wasted = 1 - POPULATION * depth / evaluated
        print(f"{depth:>8,}{statistics.median(times):>10.3f}{evaluated:>13,}{wasted:>8.0%}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
