"""Time and bytes of a generation by population and processes, and the model that follows from them.

Every setting is a run on random images with resnet20, one thread a process. Seconds are those of the leading process
between two records, medians without the first; bytes are what the processes sent each other over loopback meanwhile, in
a network namespace of their own (needs root; else they are left out). Fitted by least squares over all settings:

    seconds = compute / workers + per evaluation x evaluations / workers + per byte x bytes

A generation is one pass over the samples whatever p is, so that `compute` does not depend on it. Networks that have
learnt nothing are told apart by the first cases, so that evaluations grow with p here, and what every candidate takes
(a copy of the parent, an optimizer) counts as a part of them. With `--clock cpu` seconds are the leading process's CPU
seconds: what it takes on a core of its own, without waiting for others. Use it on a busy machine, or one with fewer
cores than workers.

    python benchmarks/scaling.py [--populations 1 2 4 8 16] [--workers 1 2 4] [--clock cpu]
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _common import CLOCKS, archive, arguments, machine, recipe

from gradlex.callbacks import Callback, LiveRun, Record
from gradlex.runs import Execution, Named, start


class Row(NamedTuple):
    """One setting, per generation."""

    population: int
    workers: int
    seconds: float
    evaluations: float
    sent: float


class Watch(Callback):
    """Notes the clock and the bytes on loopback after every generation."""

    def __init__(self, clock: str, counted: bool) -> None:
        self._now, self._counted = CLOCKS[clock], counted
        self.seconds: list[float] = []
        self.sent: list[int] = []
        self.evaluations: list[int] = []

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """Note them."""
        self.seconds.append(self._now())
        self.sent.append(_sent() if self._counted else 0)
        self.evaluations.append(record.cases_evaluated)


def main() -> int:
    parser = arguments(__doc__, clock=True)
    parser.add_argument("--populations", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--width", type=float, default=0.5)
    parser.add_argument("--measure", type=int, help="for the script itself: measure this number of workers")
    parser.add_argument("--counted", action="store_true", help="for the script itself: loopback is its own")
    given = parser.parse_args()
    if given.measure:
        measure(given)
        return 0
    print(machine(), f"; {given.clock} clock", sep="")
    print(f"{'p':>4}{'workers':>9}{'seconds':>9}{'evaluations':>13}{'bytes sent':>12}")
    with archive(given.dataset, given.samples) as path:
        given.dataset = path
        fit([row for workers in given.workers for row in measured(workers, given)])
    return 0


def measured(workers: int, given: Any) -> list[Row]:
    """The settings with so many workers, in a process and, where that can be, in a network namespace of their own."""
    names = ("samples", "generations", "width", "clock", "dataset")
    words = [word for name in names for word in (f"--{name}", str(getattr(given, name)))]
    command = [sys.executable, __file__, "--measure", str(workers), *words, "--populations"]
    command += [str(p) for p in given.populations if p >= workers]
    if os.name == "posix" and os.geteuid() == 0 and shutil.which("unshare") and shutil.which("ip"):
        command = [
            "unshare",
            "--net",
            "sh",
            "-c",
            'ip link set lo up && exec "$@"',
            "sh",
            *command,
            "--counted",
        ]
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            row = Row(*json.loads(line))
            rows.append(row)
            print(
                f"{row.population:>4}{workers:>9}{row.seconds:>9.3f}{row.evaluations:>13,.0f}{row.sent:>12,.0f}",
                flush=True,
            )
    if process.returncode:
        raise SystemExit(process.returncode)
    return rows


def measure(given: Any) -> None:
    """Run each population and print its row."""
    for population in given.populations:
        watch = Watch(given.clock, given.counted)
        start(
            Named(),
            recipe(
                str(given.dataset),
                given.samples,
                model="resnet20",
                width=given.width,
                population=population,
                selection="lexicase",
                generations=given.generations,
                batch_size=32,
                threads=1,
                precision="float32",
            ),
            Execution(workers=given.measure, evaluate_every=given.generations),
            callbacks=[watch],
        )
        seconds, sent = (
            float(np.median([after - before for before, after in pairwise(noted)]))
            for noted in (watch.seconds[:-1], watch.sent[:-1])  # the last one is evaluated
        )
        row = Row(population, given.measure, seconds, float(np.mean(watch.evaluations[1:-1])), sent)
        print(json.dumps(row), flush=True)


def _sent() -> int:
    """Bytes that have been sent over loopback."""
    found = re.search(r"lo:\s*(\d+)", Path("/proc/net/dev").read_text())
    assert found is not None
    return int(found[1])


def fit(rows: list[Row]) -> None:
    columns = np.array([[1 / row.workers, row.evaluations / row.workers, row.sent] for row in rows])
    seconds = np.array([row.seconds for row in rows])
    scale = np.where(columns.max(axis=0) > 0, columns.max(axis=0), 1.0)
    found = np.linalg.lstsq(columns / scale, seconds, rcond=None)[0] / scale
    missed = columns @ found - seconds
    print(
        f"compute {found[0]:.3f} s, an evaluation {1e3 * found[1]:.2f} ms, a megabyte {1e9 * found[2]:.1f} ms; "
        f"the model misses by {np.sqrt(np.mean(missed**2)):.3f} s (root mean square)"
    )


if __name__ == "__main__":
    sys.exit(main())
