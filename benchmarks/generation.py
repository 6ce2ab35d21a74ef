"""How long a lexicase generation takes, against an epoch of SGD on the same samples, and what workers gain.

Serial: both run generation by generation in turns, in one process of one thread, measured in CPU seconds, which
other load hardly changes. The networks improve meanwhile, so that selections become as deep as they are in a run; the
first generations are left out.

Workers: runs of a few generations with one worker of one thread, two workers of one thread, and one worker of two
threads, in turns; a generation's seconds are those between two of the run's records.

    python benchmarks/generation.py [--dataset cifar10.npz]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from _common import archive, arguments, in_turns, machine, problem, quietest, ratio, recipe, worker

from gradlex.callbacks import Callback, LiveRun, Record
from gradlex.engine import PopulationEngine
from gradlex.evolve import Generation, evolve
from gradlex.runs import Execution, Named, start


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--generations", type=int, default=8, help="of the serial comparison")
    parser.add_argument("--warm-up", type=int, default=3, help="of these, left out")
    parser.add_argument("--repeats", type=int, default=3, help="turns of the comparison of workers; 0: none")
    given = parser.parse_args()
    print(machine(), f"; {given.model}, {given.samples:,} samples, batches of 32", sep="")
    with archive(given.dataset, given.samples) as path:
        serial(path, given)
        if given.repeats:
            workers(path, given)
    return 0


def serial(path: str, given: Any) -> None:
    records: dict[str, list[Generation]] = {"sgd": [], "lexicase": []}

    def side(selection: str) -> Callable[[], object]:
        run = problem(path, given.samples, selection=selection, threads=1, **common(given, given.generations))
        trainer = worker(run)
        steps = evolve(trainer.first_parent(), PopulationEngine(trainer), run.select, run.recipe)
        return lambda: records[selection].append(next(steps))

    sides = {"sgd": side("sgd"), "lexicase": side("lexicase")}
    times = in_turns(sides, given.generations - 1, clock="cpu")
    late = {name: seconds[given.warm_up - 1 :] for name, seconds in times.items()}
    cost = ratio(late["lexicase"], late["sgd"])
    chosen = records["lexicase"][given.warm_up :]
    evaluated = statistics.median(g.cost.cases_evaluated for g in chosen)
    print(
        f"an epoch of sgd {statistics.median(late['sgd']):.1f} s, a generation of lexicase "
        f"{statistics.median(late['lexicase']):.1f} s (CPU seconds of one thread)"
    )
    print(f"cases used: {[g.choice.cases_used for g in chosen]}; evaluations: {evaluated:,.0f} (median)")
    print(f"a generation over an epoch: {cost:.3f}", flush=True)


def common(given: Any, generations: int) -> dict[str, Any]:
    return {"model": given.model, "generations": generations, "batch_size": 32, "lr": 0.05}


def workers(path: str, given: Any) -> None:
    ways = {"1 worker of 1 thread": (1, 1), "2 workers of 1 thread": (2, 1), "1 worker of 2 threads": (1, 2)}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(given.repeats):
        for way, (count, threads) in ways.items():
            times[way].append(quietest(partial(a_generation, path, given, count, threads), tries=4))
    for way, seconds in times.items():
        print(f"{way}: {statistics.median(seconds):.1f} s a generation")
    one, two, threads = times.values()
    faster, against = ratio(one, two), ratio(threads, two)
    print(f"2 workers against 1: {faster:.2f} times faster")
    print(f"2 workers of 1 thread against 1 of 2: {against:.2f} times faster")


def a_generation(path: str, given: Any, count: int, threads: int) -> float:
    """The median seconds of a run's generations but the first, which warms up, and the last, which is evaluated."""
    clock = Clock()
    start(
        Named(),
        recipe(path, given.samples, threads=threads, **common(given, 4)),
        Execution(workers=count, evaluate_every=100, device="cpu"),
        callbacks=[clock],
    )
    return statistics.median(late - early for early, late in pairwise(clock.moments[:-1]))


class Clock(Callback):
    """Notes when each generation ends."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """The time now."""
        self.moments.append(time.perf_counter())


if __name__ == "__main__":
    sys.exit(main())
