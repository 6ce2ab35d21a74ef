"""How fast `gradlex.selection.select_parents` is, as ratios measured in one run, and how much memory it needs.

Against the packages `lexicase` (its NumPy form), `deap`, `tpot` and `fomo`: 1,000 parents, each by its own order
of cases. The loops of the last three would take hours, so they select a few parents and the time is scaled; their cost
is the same for each. Where 2 % fail even that takes too long, and they are left out. fomo has
epsilon-lexicase alone, whose pools shrink sooner or later than those of lexicase. Times are CPU seconds of this
process. Load on the machine raises them, so gradlex and `lexicase`, the fastest of the others, take turns, and the
least disturbed turn of each counts. Install with `pip install 'gradlex[benchmarks]' pyfomo` and
`pip install --no-deps tpot`, of which one file is used.

    python benchmarks/select_parents.py
    python benchmarks/select_parents.py --shapes 1000x200
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import multiprocessing
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gradlex.selection import select_parents

PARENTS = 1_000
SHAPES = ("1000x200", "1000x5000", "10000x1000")
TABLES = ("binary, half fail", "binary, 2 % fail", "continuous")


def table_of(name: str, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(0)
    if name == "continuous":
        return rng.random(shape)
    return (rng.random(shape) < (0.5 if "half" in name else 0.02)).astype(np.float64)


def seconds(run: Callable[[int], object], seed: int = 0) -> float:
    """The CPU seconds of a run with a seed."""
    start = time.process_time()
    run(seed)
    return time.process_time() - start


def in_turns(table: np.ndarray, parents: int, turns: int) -> tuple[float, float]:
    """The time of gradlex, and of the package `lexicase` scaled from fewer parents: each the shortest of its turns."""
    import lexicase  # noqa: PLC0415  # so that memory is measured without it

    fitness = -table  # there, higher is better
    select_parents(table, 10, rng=0)  # warm up
    lexicase.lexicase_selection(fitness[:50, :50], 5, seed=0)
    mine, others = [], []
    for turn in range(turns):
        mine.append(seconds(lambda seed: select_parents(table, PARENTS, rng=seed), turn))
        others.append(seconds(lambda seed: lexicase.lexicase_selection(fitness, parents, seed=seed), turn))
    return min(mine), min(others) * PARENTS / parents


def deap_package(table: np.ndarray, parents: int) -> float:
    """DEAP's time for all the parents, scaled from a few."""
    from deap import base, tools  # noqa: PLC0415

    class Fitness(base.Fitness):  # type: ignore[misc]  # deap has no types
        weights = (-1.0,) * table.shape[1]

    class Individual:
        def __init__(self, errors: list[float]) -> None:
            self.fitness = Fitness(errors)

    population = [Individual(errors) for errors in table.tolist()]
    return seconds(lambda _: tools.selLexicase(population, parents)) * PARENTS / parents


def tpot_package(table: np.ndarray, parents: int) -> float | None:
    """The same for TPOT's loop, from its file alone: the package imports dask and more."""
    spec = importlib.util.find_spec("tpot")
    if spec is None or not spec.submodule_search_locations:
        return None
    place = Path(spec.submodule_search_locations[0]) / "selectors" / "lexicase_selection.py"
    source = importlib.util.spec_from_file_location("tpots_own", place)
    assert source is not None
    assert source.loader is not None
    own = importlib.util.module_from_spec(source)
    source.loader.exec_module(own)
    return seconds(lambda seed: own.lexicase_selection(-table, parents, rng=seed)) * PARENTS / parents


def fomo_package(table: np.ndarray, parents: int) -> float | None:
    """The same for fomo's loop, with the columns as its groups."""
    if importlib.util.find_spec("fomo") is None:
        return None
    from fomo import algorithm  # noqa: PLC0415
    from pymoo.core.population import Population  # noqa: PLC0415

    population = Population.new(fng=table, fn=table.mean(axis=1))
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its name
        return (
            seconds(lambda _: [algorithm.get_parent(population) for _ in range(parents)]) * PARENTS / parents
        )


def speed(shapes: list[tuple[int, int]]) -> None:
    print(f"{PARENTS:,} parents, CPU seconds, and how many times faster gradlex is")
    print(
        f"{'table':20}{'shape':>14}{'gradlex':>10}{'lexicase':>10}{'x':>7}{'deap *':>10}{'x':>8}{'tpot *':>10}{'x':>8}"
        f"{'fomo *':>10}{'x':>8}"
    )
    for shape in shapes:
        for name in TABLES:
            table = table_of(name, shape)
            mine, best = in_turns(table, 20 if "2 %" in name else 100, turns=7)
            few = 1 if table.size > 1e6 else 5
            loops = (deap_package, tpot_package, fomo_package)
            others = [best, *(None if "2 %" in name else loop(table, few) for loop in loops)]
            line = "".join(
                f"{other:>10.3g}{other / mine:>{width}.0f}" if other is not None else " " * (10 + width)
                for other, width in zip(others, (7, 8, 8, 8), strict=True)
            )
            print(f"{name:20}{shape[0]:>7,} x{shape[1]:>5,}{mine:>10.4f}{line}", flush=True)
    print("* scaled from 1 to 5 parents; lexicase from 20 or 100\n")


def _peak(name: str, dtype: str, answer: multiprocessing.Queue[tuple[float, float]]) -> None:
    """In a process of its own: the table's bytes, and the most that was held with it."""
    table = table_of(name, (10_000, 1_000)).astype(dtype)
    tracemalloc.start()
    select_parents(table, PARENTS, rng=0)
    answer.put((table.nbytes, tracemalloc.get_traced_memory()[1] + table.nbytes))


def memory() -> None:
    print("10,000 individuals x 1,000 cases: peak memory with the table, in tables")
    print(f"{'table':20}{'type':>9}{'table MB':>10}{'peak MB':>10}{'peak/table':>12}")
    spawn = multiprocessing.get_context("spawn")
    for name in TABLES:
        for dtype in ("float64", "uint8") if "binary" in name else ("float64", "float32"):
            answer = spawn.Queue()
            child = spawn.Process(target=_peak, args=(name, dtype, answer))
            child.start()
            size, peak = answer.get()
            child.join()
            print(
                f"{name:20}{dtype:>9}{size / 1e6:>10.0f}{peak / 1e6:>10.0f}{peak / size:>12.2f}", flush=True
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="individuals x cases")
    given = parser.parse_args()
    speed([(int(shape.split("x")[0]), int(shape.split("x")[1])) for shape in given.shapes])
    memory()
