"""Time and bytes of a generation by population and processes, and the model that follows from them.

Every setting is a run of the command on random images with resnet20. Seconds are those of its records, without the
first generation; bytes are what its processes sent each other over loopback, in a network namespace of their own (needs
root; else they are left out). Fitted by least squares over all settings:

    seconds = compute / workers + per evaluation x evaluations / workers + per byte x bytes

A generation is one pass over the samples whatever p is, so that `compute` does not depend on it.

    python benchmarks/scaling.py [--populations 1 2 4 8 16] [--workers 1 2 4]
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _common import archive, arguments, machine


class Row(NamedTuple):
    """One setting, per generation."""

    population: int
    workers: int
    seconds: float
    evaluations: float
    sent: float | None


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--populations", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--width", type=float, default=0.5)
    given = parser.parse_args()
    print(machine())
    print(f"{'p':>4}{'workers':>9}{'seconds':>9}{'evaluations':>13}{'bytes sent':>12}")
    rows = []
    with archive(given.dataset, given.samples) as path, tempfile.TemporaryDirectory() as folder:
        for population in given.populations:
            for workers in (count for count in given.workers if count <= population):
                rows.append(
                    measured(path, Path(folder) / f"{population}-{workers}", population, workers, given)
                )
                row = rows[-1]
                sent = "-" if row.sent is None else f"{row.sent:,.0f}"
                print(
                    f"{population:>4}{workers:>9}{row.seconds:>9.3f}{row.evaluations:>13,.0f}{sent:>12}",
                    flush=True,
                )
    fit(rows)
    return 0


def measured(path: str, out: Path, population: int, workers: int, given: Any) -> Row:
    train = {
        "dataset": path,
        "model": "resnet20",
        "width": given.width,
        "train-size": given.samples,
        "population": population,
        "selection": "lexicase",
        "generations": given.generations,
        "batch-size": 32,
        "workers": workers,
        "threads": 1,
        "precision": "float32",
        "out": out,
    }
    command = [
        sys.executable,
        "-m",
        "gradlex",
        "train",
        *(str(w) for k, v in train.items() for w in (f"--{k}", v)),
    ]
    apart = os.name == "posix" and os.geteuid() == 0 and shutil.which("unshare") and shutil.which("ip")
    if apart:
        inside = 'ip link set lo up && "$@" > /dev/null && cat /proc/net/dev'
        command = ["unshare", "--net", "sh", "-c", inside, "sh", *command]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    counted = re.search(r"lo:\s*(\d+)", done.stdout) if apart else None
    records = [json.loads(line) for line in (out / "generations.jsonl").read_text().splitlines()][1:]
    return Row(
        population,
        workers,
        float(np.median([each["train_seconds"] + each["select_seconds"] for each in records])),
        float(np.mean([each["cases_evaluated"] for each in records])),
        None if counted is None else int(counted[1]) / given.generations,
    )


def fit(rows: list[Row]) -> None:
    columns = np.array([[1 / row.workers, row.evaluations / row.workers, row.sent or 0.0] for row in rows])
    seconds = np.array([row.seconds for row in rows])
    scale = np.where(columns.max(axis=0) > 0, columns.max(axis=0), 1.0)
    found = np.linalg.lstsq(columns / scale, seconds, rcond=None)[0] / scale
    missed = columns @ found - seconds
    print(
        f"compute {found[0]:.3f} s, an evaluation {1e6 * found[1]:.1f} us, a megabyte {1e6 * found[2]:.4f} s; "
        f"the model misses by {np.sqrt(np.mean(missed**2)):.3f} s (root mean square)"
    )


if __name__ == "__main__":
    sys.exit(main())
