"""How many times faster `gradlex.selection.select_parents` is than the package `lexicase` (its NumPy form).

1,000 parents, each by its own order of cases under the classic rule. The two take turns in one run, so that load
disturbs both; times are CPU seconds of this process, and the shortest turn of each counts. The package selects fewer
parents, each at the same cost, and its time is scaled.

    pip install lexicase
    OMP_NUM_THREADS=1 python benchmarks/select_parents.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import lexicase
import numpy as np

from gradlex.selection import select_parents

PARENTS = 1_000
TABLES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "half fail": lambda rng, shape: (rng.random(shape) < 0.5).astype(np.float64),
    "2% fail": lambda rng, shape: (rng.random(shape) < 0.02).astype(np.float64),
    "continuous": lambda rng, shape: rng.random(shape),
}


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(table: np.ndarray, parents: int, turns: int) -> tuple[float, float]:
    """The seconds of gradlex and of the package for all parents."""
    fitness = -table  # there, higher is better
    mine, others = [], []
    for seed in range(turns):
        mine.append(seconds(lambda: select_parents(table, PARENTS, rng=seed, on_all_fail="survive")))  # noqa: B023
        others.append(seconds(lambda: lexicase.lexicase_selection(fitness, parents, seed=seed)))  # noqa: B023
    return min(mine), min(others) * PARENTS / parents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["1000x200", "1000x5000"], help="individuals x cases")
    parser.add_argument("--turns", type=int, default=11)
    given = parser.parse_args()
    print(f"{'table':<12}{'shape':>12}{'gradlex ms':>12}{'lexicase ms':>13}{'ratio':>8}")
    for text in given.shapes:
        shape = tuple(int(size) for size in text.split("x"))
        for name, make in TABLES.items():
            table = make(np.random.default_rng(0), shape)
            mine, other = compare(table, 20 if name == "2% fail" else 100, given.turns)
            print(f"{name:<12}{text:>12}{mine * 1e3:>12.2f}{other * 1e3:>13.1f}{other / mine:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
