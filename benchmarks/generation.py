"""What a lexicase generation takes, against an epoch of SGD on the same samples, and what workers gain.

Serial: both run generation by generation in turns, in one process of one thread, and its processor seconds are
counted, which others on the machine do not change. The networks get better meanwhile, so that selections become as
deep as they are in a run; the first generations are left out.

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

from _common import archive, arguments, in_turns, machine, problem, quietest, ratio, worker

from gradlex.engine import PopulationEngine
from gradlex.evolve import Generation, evolve
from gradlex.runs import Execution, Record, execute
from gradlex.selection import bind

WANTED_SERIAL = 1.15
WANTED_WORKERS = 1.6  # two workers of one thread against one
WANTED_THREADS = 1.0  # two workers of one thread against one process of two threads


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--generations", type=int, default=8, help="of the serial comparison")
    parser.add_argument("--warm-up", type=int, default=3, help="of these, left out")
    parser.add_argument("--repeats", type=int, default=3, help="turns of the comparison of workers; 0: none")
    asked = parser.parse_args()
    print(machine(), f"; {asked.model}, {asked.samples:,} samples, batches of 32", sep="")
    with archive(asked.dataset, asked.samples) as path:
        met = [serial(path, asked)]
        if asked.repeats:
            met.append(workers(path, asked))
    return 0 if all(met) else 1


def serial(path: str, asked: Any) -> bool:
    records: dict[str, list[Generation]] = {"sgd": [], "lexicase": []}

    def side(selection: str) -> Callable[[], object]:
        run = problem(path, asked.samples, selection=selection, threads=1, **common(asked, asked.generations))
        trainer = worker(run)
        choose = bind(selection, **({"on_all_fail": "random"} if selection == "lexicase" else {}))
        steps = evolve(trainer.first_parent(), PopulationEngine(trainer), choose, run.recipe)
        return lambda: records[selection].append(next(steps))

    sides = {"sgd": side("sgd"), "lexicase": side("lexicase")}
    times = in_turns(sides, asked.generations - 1, clock="cpu")
    late = {name: seconds[asked.warm_up - 1 :] for name, seconds in times.items()}
    cost = ratio(late["lexicase"], late["sgd"])
    chosen = records["lexicase"][asked.warm_up :]
    asked_for = statistics.median(g.cost.cases_evaluated for g in chosen)
    print(
        f"an epoch of sgd {statistics.median(late['sgd']):.1f} s, a generation of lexicase "
        f"{statistics.median(late['lexicase']):.1f} s (processor seconds of one thread)"
    )
    print(f"cases used: {[g.choice.cases_used for g in chosen]}; evaluations: {asked_for:,.0f} (median)")
    print(f"a generation over an epoch: {cost:.3f} (wanted: at most {WANTED_SERIAL})", flush=True)
    return cost <= WANTED_SERIAL


def common(asked: Any, generations: int) -> dict[str, Any]:
    return {"model": asked.model, "generations": generations, "batch_size": 32, "lr": 0.05}


def workers(path: str, asked: Any) -> bool:
    ways = {"1 worker of 1 thread": (1, 1), "2 workers of 1 thread": (2, 1), "1 worker of 2 threads": (1, 2)}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(asked.repeats):
        for way, (count, threads) in ways.items():
            times[way].append(quietest(partial(a_generation, path, asked, count, threads), tries=4))
    for way, seconds in times.items():
        print(f"{way}: {statistics.median(seconds):.1f} s a generation")
    one, two, threads = times.values()
    faster, against = ratio(one, two), ratio(threads, two)
    print(f"2 workers against 1: {faster:.2f} times faster (wanted: {WANTED_WORKERS})")
    print(f"2 workers of 1 thread against 1 of 2: {against:.2f} times faster (wanted: {WANTED_THREADS})")
    return faster >= WANTED_WORKERS and against >= WANTED_THREADS


def a_generation(path: str, asked: Any, count: int, threads: int) -> float:
    """The median seconds of a run's generations but the first, which warms up, and the last, which is evaluated."""
    moments: list[float] = []

    def note(_: Record) -> None:
        moments.append(time.perf_counter())

    run = problem(path, asked.samples, threads=threads, **common(asked, 4))
    execute(run, execution=Execution(workers=count, evaluate_every=100), callback=note)
    return statistics.median(late - early for early, late in pairwise(moments[:-1]))


if __name__ == "__main__":
    sys.exit(main())
