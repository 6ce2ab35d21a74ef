"""The peak memory of a run, in copies of the network's weights, by population, serial and with two workers.

A run is a process of its own (with its workers). Its memory is their proportional set size without mapped files,
sampled while it runs, so what they share counts once. Subtracted is what a process needs to train one plain copy of
the network, except its weights and gradients: Python's objects, the data, one candidate's activations and the weights
that autocast has cast. The rest are copies of the weights.

Expected are one for each candidate and, in each worker, three: the parent, the gradients, the momentum; with `inherit`
another for each candidate. A straightforward version holds p networks with gradients and momentum: 3 p.

    python benchmarks/memory.py [--populations 1 4] [--momentum inherit]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _common import archive, arguments, machine, problem, recipe

from gradlex.models import build
from gradlex.runs import Execution, Named, start


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--populations", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--steps", type=int, default=60, help="of the plain loop; several must be at their peaks together"
    )
    parser.add_argument("--momentum", choices=["reset", "inherit"], default="reset")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given, *given.child)
        return 0
    parameters = sum(p.numel() for p in build(given.model, num_classes=10).parameters())
    copy = 4 * parameters / 1e6
    print(machine())
    print(f"{given.model}: a copy of the weights is {copy:.1f} MB; momentum {given.momentum}")
    with archive(given.dataset, given.samples) as path:
        for workers in given.workers:
            rest = peak([command(given, path, "plain", 1)] * workers) - workers * 2 * copy
            print(f"workers: {workers}; objects, data and activations {rest:.0f} MB")
            print(f"{'p':>4}{'peak MB':>10}{'copies':>9}{'expected':>10}{'straightforward':>17}")
            for p in given.populations:
                if p < workers:
                    continue
                total = peak([command(given, path, str(p), workers)])
                copies = (total - rest) / copy
                expected = p * (2 if given.momentum == "inherit" else 1) + 3 * workers
                print(f"{p:>4}{total:>10.0f}{copies:>9.2f}{expected:>10}{3 * p:>17}", flush=True)
    return 0


def command(given: Any, path: str, what: str, workers: int) -> list[str]:
    options = ["--model", given.model, "--samples", given.samples, "--batch-size", given.batch_size]
    options += ["--momentum", given.momentum, "--steps", given.steps, "--child", path, what, workers]
    return [sys.executable, __file__, *map(str, options)]


def child(given: Any, path: str, what: str, workers: str) -> None:
    """What is measured: a whole run with a population, or a plain loop over one network."""
    common = {"model": given.model, "batch_size": given.batch_size, "threads": 1, "lr": 0.001}
    if what != "plain":
        numbers = {"population": int(what), "momentum": given.momentum, "generations": 2, **common}
        how = Execution(workers=int(workers), device="cpu")
        start(Named(), recipe(path, given.samples, **numbers), how)
        return
    run = problem(path, given.samples, **common)
    torch.set_num_threads(1)
    net = run.model.to(memory_format=torch.channels_last).train()
    for _ in range(given.steps):
        inputs, targets = run.train.augmented(np.arange(given.batch_size), np.random.default_rng(0))
        with torch.autocast("cpu", torch.bfloat16, enabled=run.recipe.precision == "bfloat16"):
            loss = F.cross_entropy(net(inputs).float(), targets)
        loss.backward()
        for parameter in net.parameters():
            parameter.grad = None


def peak(commands: list[list[str]]) -> float:
    """The most megabytes that the commands and what they start hold together."""
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    largest = 0.0
    while any(process.poll() is None for process in processes):
        largest = max(largest, sum(held(process.pid) for process in processes))
        time.sleep(0.02)
    for process in processes:
        if process.returncode:
            raise SystemExit(f"a measured process failed with exit code {process.returncode}")
    return largest


def held(pid: int) -> float:
    """The proportional set size of a process and its descendants, in megabytes; 0 where it has just ended.

    Without mapped files: the pages of torch's libraries are shared with whoever else uses them on the machine.
    """
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    own = sum(map(int, re.findall(r"^Pss_(?:Anon|Shmem):\s+(\d+)", rollup, re.MULTILINE))) * 1024 / 1e6
    return own + sum(held(int(other)) for other in children)


if __name__ == "__main__":
    sys.exit(main())
