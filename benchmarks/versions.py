"""How fast candidates are evaluated, and trained, against the code in another checkout of gradlex.

Each side is a process that imports its own checkout, and they compute in turns, never at the same time. Ratios are
those of the fastest turns: what another process of the machine disturbs is only ever slower.

    git worktree add /tmp/before COMMIT
    python benchmarks/versions.py /tmp/before [--models resnet18 resnet20] [--train]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from _common import CLOCKS, archive, arguments, machine, problem, worker  # of the side's own checkout

HERE = Path(__file__).resolve()
POPULATION = 4


def main() -> int:
    parser = arguments(__doc__, clock=True)
    parser.add_argument("before", type=Path, help="the folder of the other checkout")
    parser.add_argument("--models", nargs="+", default=["resnet18", "resnet20"])
    parser.add_argument("--samples", type=int, default=128, help="cases, or training samples, a turn")
    parser.add_argument("--train", action="store_true", help="measure training instead of selection")
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        compute(given)
        return 0
    print(machine(), f"; {given.threads} threads, {given.clock} clock", sep="")
    sides = ("before", "now") if given.train else ("before", "now", "folded")
    print(f"{'samples/s':14}" + "".join(f"{side:>9}" for side in sides) + f"{'ratios':>9}")
    with archive(given.dataset, POPULATION * given.samples) as path:
        given.dataset = path
        for model in given.models:
            times = in_turns(model, sides, given)
            best = {side: min(seconds) for side, seconds in times.items()}
            samples = given.samples * (1 if given.train else POPULATION)
            print(
                f"{model:14}"
                + "".join(f"{samples / best[side]:>9.1f}" for side in sides)
                + "".join(f"{best['before'] / best[side]:>9.2f}" for side in sides[1:]),
                flush=True,
            )
    return 0


def in_turns(model: str, sides: tuple[str, ...], given: Any) -> dict[str, list[float]]:
    """The seconds of every side's turns, by the side."""
    with ExitStack() as stack:
        started = {side: stack.enter_context(process(model, side, given)) for side in sides}
        times: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(given.repeats + 1):
            for side, child in started.items():
                assert child.stdin is not None
                assert child.stdout is not None
                child.stdin.write("\n")
                child.stdin.flush()
                line = child.stdout.readline()
                if not line:
                    raise SystemExit(f"the side {side} has failed; see above.")
                if turn:  # the first is for warming up
                    times[side].append(float(line))
        for child in started.values():
            assert child.stdin is not None
            child.stdin.close()
    return times


def process(model: str, side: str, given: Any) -> subprocess.Popen[str]:
    """A side, waiting for its first turn."""
    root = given.before.resolve() if side == "before" else HERE.parents[1]
    # Run by its path, it would find the helpers beside it rather than those of its own checkout.
    run = f"import runpy; runpy.run_path({str(HERE)!r}, run_name='__main__')"
    options = ["--side", side, "--models", model, "--dataset", given.dataset, "--clock", given.clock]
    options += ["--samples", str(given.samples), "--threads", str(given.threads), *["--train"] * given.train]
    return subprocess.Popen(
        [sys.executable, "-c", run, str(root), *options],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root / "benchmarks")])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def compute(given: Any) -> None:
    """One turn for each line that comes in; its seconds go out."""
    if importlib.util.find_spec("gradlex._memory"):  # as the command does since 0.2.0
        importlib.import_module("gradlex._memory").keep_freed_memory()
    fields = {"fold_norm": True} if given.side == "folded" else {}
    ours = problem(
        str(given.dataset),
        POPULATION * given.samples,
        model=given.models[0],
        threads=given.threads,
        population=POPULATION,
        batch_size=64,
        **fields,
    )
    own, numbers, now = worker(ours), np.arange(given.samples), CLOCKS[given.clock]
    parent = own.first_parent()
    states = [own.first_parent().state for _ in range(POPULATION)]
    for _ in sys.stdin:
        start = now()
        if given.train:
            own.train(parent, 0, numbers, 0.01)
        else:
            own.errors(states, numbers)
        print(now() - start, flush=True)


if __name__ == "__main__":
    sys.exit(main())
