"""How fast `gradlex.selection.select_parents` is, as ratios measured in one run, and how much memory it needs.

Against the packages `lexicase` (its NumPy form) and `deap`: 1,000 individuals x 200 cases, 1,000 parents, every
parent by its own order of cases. DEAP would take many minutes, so it selects fewer parents and the time is
scaled; its cost is the same for each. Install with `pip install gradlex[benchmarks]`.

    python benchmarks/select_parents.py
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from gradlex.selection import select_parents

INDIVIDUALS, CASES, PARENTS = 1_000, 200, 1_000
TABLES = ("binary, half fail", "binary, 2 % fail", "continuous")


def tables(shape: tuple[int, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "binary, half fail": (rng.random(shape) < 0.5).astype(np.float64),
        "binary, 2 % fail": (rng.random(shape) < 0.02).astype(np.float64),
        "continuous": rng.random(shape),
    }


def seconds(run: Callable[[int], object], repeats: int) -> float:
    """The median of some runs, each with its own seed."""
    times = []
    for seed in range(repeats):
        start = time.perf_counter()
        run(seed)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def ours(table: np.ndarray) -> float:
    select_parents(table, 10, rng=0)  # warm up
    return seconds(lambda seed: select_parents(table, PARENTS, rng=seed), 15)


def lexicase_package(table: np.ndarray) -> float:
    import lexicase  # noqa: PLC0415  # so that memory is measured without it

    fitness = -table  # there, higher is better
    return seconds(lambda seed: lexicase.lexicase_selection(fitness, PARENTS, seed=seed), 5)


def deap_package(table: np.ndarray, parents: int) -> float:
    """DEAP's time for all the parents, scaled from a few."""
    from deap import base, tools  # noqa: PLC0415

    class Fitness(base.Fitness):  # type: ignore[misc]  # deap has no types
        weights = (-1.0,) * CASES

    class Individual:
        def __init__(self, errors: list[float]) -> None:
            self.fitness = Fitness(errors)

    population = [Individual(errors) for errors in table.tolist()]
    return seconds(lambda seed: tools.selLexicase(population, parents), 1) * PARENTS / parents


def speed() -> None:
    print(f"{INDIVIDUALS:,} individuals x {CASES} cases, {PARENTS:,} parents, seconds (median)")
    print(f"{'table':20}{'gradlex':>10}{'lexicase':>10}{'deap *':>10}{'x lexicase':>12}{'x deap':>10}")
    for name, table in tables((INDIVIDUALS, CASES)).items():
        mine, theirs = ours(table), lexicase_package(table)
        deap = deap_package(table, 2 if "2 %" in name else 10)
        print(f"{name:20}{mine:>10.5f}{theirs:>10.4f}{deap:>10.1f}{theirs / mine:>12.1f}{deap / mine:>10.0f}")
    print("* scaled from 10 parents (2 where 2 % fail)\n")


def _peak(
    name: str, dtype: str, parents: int, answer: multiprocessing.Queue[tuple[float, float, float]]
) -> None:
    """In a process of its own: the table's bytes, and the most that was held with it by two measures."""
    table = tables((10_000, 1_000))[name].astype(dtype)
    tracemalloc.start()
    select_parents(table, parents, rng=0)
    traced = tracemalloc.get_traced_memory()[1] + table.nbytes
    tracemalloc.stop()
    start = time.perf_counter()
    select_parents(table, parents, rng=0)
    answer.put((table.nbytes, traced, time.perf_counter() - start))


def memory() -> None:
    print("10,000 individuals x 1,000 cases: peak memory with the table, in tables")
    print(f"{'table':20}{'type':>9}{'table MB':>10}{'peak MB':>10}{'peak/table':>12}{'1,000 parents s':>17}")
    spawn = multiprocessing.get_context("spawn")
    for name in TABLES:
        for dtype in ("float64", "uint8") if "binary" in name else ("float64", "float32"):
            answer = spawn.Queue()
            child = spawn.Process(target=_peak, args=(name, dtype, 1_000, answer))
            child.start()
            size, peak, took = answer.get()
            child.join()
            print(
                f"{name:20}{dtype:>9}{size / 1e6:>10.0f}{peak / 1e6:>10.0f}{peak / size:>12.2f}{took:>17.3f}"
            )
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"largest resident size of a child, making its tables included: {largest:.0f} MB")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    speed()
    memory()
