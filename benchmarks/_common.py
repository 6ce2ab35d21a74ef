"""What the benchmarks share: the machine's name, images, workers on the real path, and timing in turns."""

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
from gradlex.runs import Execution, Named, Problem, make_problem

Result = TypeVar("Result")
CPU = torch.device("cpu")
QUIET = 0.15  # of one CPU: what other processes may take of a turn that counts
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def arguments(documentation: str | None, *, clock: bool = False) -> argparse.ArgumentParser:
    """A parser with the benchmark's docstring as its help, and the options that several of them have."""
    parser = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dataset", type=Path, help="images: a .npz archive (default: random bytes of CIFAR's shape)"
    )
    if clock:
        parser.add_argument(
            "--clock",
            choices=list(CLOCKS),
            default="wall",
            help="cpu: this process's CPU seconds, for a busy machine; use one thread then",
        )
    return parser


def machine() -> str:
    """The CPU, its cores, its load, and the versions."""
    listed = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", listed.read_text()) if listed.exists() else []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"CPU: {names[0] if names else platform.processor()}, {cores} cores, "
        f"load {os.getloadavg()[0]:.1f}; torch {torch.__version__}; Python {platform.python_version()}"
    )


@contextmanager
def archive(given: Path | None, samples: int) -> Iterator[str]:
    """The path of the given archive, or of a temporary one of random images."""
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


def recipe(path: str, samples: int, **fields: Any) -> Recipe:
    """A recipe on the first samples of an archive, with the paper's augmentation."""
    return Recipe(dataset=path, train_size=samples, augment="crop4,flip", **fields)


def problem(path: str, samples: int, **fields: Any) -> Problem:
    """The problem of such a recipe, put together as the command does it."""
    return make_problem(Named(), recipe(path, samples, **fields), execution=Execution(), device=CPU)


def worker(of: Problem) -> Worker:
    """The worker that trains and evaluates a problem's candidates."""
    return Worker(of.model, of.train, of.task, of.recipe, of.device)


def in_turns(
    sides: Mapping[str, Callable[[], object]], repeats: int, clock: str = "wall"
) -> dict[str, list[float]]:
    """The seconds of every side, run in turns, so that other load falls on all of them alike.

    On the wall clock a disturbed turn is repeated, and the quietest try counts.
    """
    for run in sides.values():  # warm up
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
    """The measurement during which other processes used the least CPU; stops at the first quiet one."""
    found = []
    for _ in range(tries):
        start, taken = time.perf_counter(), _others()
        result = measure()
        share = (_others() - taken) / (time.perf_counter() - start)  # of one CPU
        found.append((share, result))
        if share < QUIET:
            break
    share, result = min(found, key=itemgetter(0))
    if share >= QUIET and tries > 1:
        print(f"(disturbed: others used {share:.2f} CPUs)", file=sys.stderr, flush=True)
    return result


def _others() -> float:
    """CPU seconds that others have used: those of the whole machine, less this process and its children."""
    try:
        ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:  # not Linux
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def ratio(slower: list[float], faster: list[float]) -> float:
    """How many times faster the second is: the median over the turns."""
    return statistics.median(one / other for one, other in zip(slower, faster, strict=True))
