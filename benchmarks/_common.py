"""What the benchmarks share: the machine's name, pictures, workers on the real path, and timing in turns."""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from gradlex.engine import Worker
from gradlex.recipe import Recipe
from gradlex.runs import Problem, named_problem

Result = TypeVar("Result")
CPU = torch.device("cpu")
QUIET = 0.15  # of one processor: what others may take of a turn that counts
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def arguments(documentation: str | None, *, clock: bool = False) -> argparse.ArgumentParser:
    """A parser that says what the benchmark's docstring says, with the options that several of them have."""
    parser = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dataset", type=Path, help="pictures: a .npz archive (default: random bytes of CIFAR's shape)"
    )
    if clock:
        parser.add_argument(
            "--clock",
            choices=list(CLOCKS),
            default="wall",
            help="cpu: this process's processor seconds, where others keep the machine busy; use one thread then",
        )
    return parser


def machine() -> str:
    """The processor, its cores, how busy it is, and the versions."""
    listed = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", listed.read_text()) if listed.exists() else []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"processor: {names[0] if names else platform.processor()}, {cores} cores, "
        f"load {os.getloadavg()[0]:.1f}; torch {torch.__version__}; Python {platform.python_version()}"
    )


@contextmanager
def archive(given: Path | None, samples: int) -> Iterator[str]:
    """The path of the given archive, or of a temporary one of random pictures; no process need share it."""
    if given is not None:
        yield str(given)
        return
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.npz"
        x = rng.integers(0, 256, (samples + 10, 32, 32, 3), dtype=np.uint8)
        y = np.arange(len(x)) % 10
        np.savez(path, x_train=x[:-10], y_train=y[:-10], x_test=x[-10:], y_test=y[-10:])
        yield str(path)


def problem(path: str, samples: int, **fields: Any) -> Problem:
    """The problem of a recipe, put together as the command does it."""
    recipe = Recipe(dataset=path, train_size=samples, augment="crop4,flip", **fields)
    return named_problem(recipe, device=CPU)


def worker(of: Problem) -> Worker:
    """The worker that trains and asks a problem's candidates."""
    return Worker(of.model, of.train, of.task, of.recipe, of.device)


def in_turns(
    sides: Mapping[str, Callable[[], object]], repeats: int, clock: str = "wall"
) -> dict[str, list[float]]:
    """The seconds of every side, run in turns: what else the machine does falls on all of them alike.

    On the wall clock a turn that others disturbed is tried again, and the quietest try counts.
    """
    for run in sides.values():  # once for warming up
        run()
    turns = [quietest(lambda: _turn(sides, clock), tries=8 if clock == "wall" else 1) for _ in range(repeats)]
    return {name: [turn[name] for turn in turns] for name in sides}


def _turn(sides: Mapping[str, Callable[[], object]], clock: str) -> dict[str, float]:
    now, times = CLOCKS[clock], {}
    for name, run in sides.items():
        start = now()
        run()
        times[name] = now() - start
    return times


def quietest(measure: Callable[[], Result], tries: int) -> Result:
    """What was measured while other processes took least of the machine; the first time they took almost none."""
    found = []
    for _ in range(tries):
        start, taken = time.perf_counter(), _others()
        result = measure()
        share = (_others() - taken) / (time.perf_counter() - start)  # of one processor
        found.append((share, result))
        if share < QUIET:
            break
    share, result = min(found, key=itemgetter(0))
    if share >= QUIET and tries > 1:
        print(f"(disturbed: others took {share:.2f} processors)", file=sys.stderr, flush=True)
    return result


def _others() -> float:
    """Processor seconds that others have used: all that the machine was busy, less this process and its children."""
    try:
        ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:  # no such file outside Linux: nothing can be told
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def ratio(slower: list[float], faster: list[float]) -> float:
    """How many times faster the second is: the median over the turns, each of which saw the same machine."""
    return statistics.median(one / other for one, other in zip(slower, faster, strict=True))
