"""Which outer learning rate suits an outer momentum, found on held-out training images, never on test images.

A fifth of the training part that the experiments use (`--train-size`) is held out and takes the place of the test
images; the rest is trained on, with the mean of the candidates as the parent (`--promotion average`), for a part of
the experiments' generations. Rerun the command to continue; finished runs are skipped.

    python benchmarks/outer_rates.py --dataset cifar10.npz --runs runs/outer [--jobs 2]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from _common import machine

from gradlex.data import load
from gradlex.errors import InterruptedRun
from gradlex.experiments import Cell, Failure, Job, prepare, run_jobs
from gradlex.recipe import Recipe
from gradlex.runs import stored_run

RATES = {0.0: (1.0,), 0.5: (0.5, 1.0, 2.0), 0.9: (0.1, 0.2, 0.4, 0.7, 1.0, 2.0)}  # by momentum


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="cifar10", help="a name, or a .npz archive")
    parser.add_argument("--runs", type=Path, default=Path("runs/outer"))
    parser.add_argument("--model", default="resnet20")
    parser.add_argument(
        "--train-size", type=int, default=5_000, help="of the experiments; a fifth is held out"
    )
    parser.add_argument("--generations", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, one thread each")
    given = parser.parse_args()
    print(machine())
    shared = Recipe(
        dataset=str(held_out(given.dataset, given.train_size, given.runs)),
        model=given.model,
        promotion="average",
        generations=given.generations,
        batch_size=32,
        lr=0.05,
        augment="crop4,flip",
        threads=1,
    )
    cells = [
        Cell(method="average", recipe=shared.replace(outer_momentum=momentum, outer_lr=rate))
        for momentum, rates in RATES.items()
        for rate in rates
    ]
    cpu = torch.device("cpu")
    jobs = prepare(cells, given.runs, device=cpu)
    try:
        failures = run_jobs(jobs, at_once=given.jobs, device=cpu, evaluations=5, watcher=Lines())
    except InterruptedRun as interruption:
        print(interruption)
        return interruption.exit_code
    for failure in failures:  # a rate that is too large diverges: that is an answer too
        print(f"{failure.job.folder.name}: {failure.reason}")
    print(f"{'momentum':>8}{'rate':>6}{'held-out accuracy':>19}{'training accuracy':>19}")
    for job in jobs:
        found = stored_run(job.folder).result if job.state == "done" else None
        words = ["failed", "-"]
        if found:
            words = [f"{found['metrics'][part]['accuracy']:.2%}" for part in ("test", "train")]
        print(f"{job.recipe.outer_momentum:>8}{job.recipe.outer_lr:>6}{words[0]:>19}{words[1]:>19}")
    return 0


def held_out(dataset: str, train_size: int, folder: Path) -> Path:
    """An archive of four fifths of the experiments' training part, with the last fifth as the test part."""
    part = load(Recipe(dataset=dataset, train_size=train_size))
    order = np.random.default_rng(0).permutation(train_size)
    kept, held = np.sort(order[train_size // 5 :]), np.sort(order[: train_size // 5])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "held-out.npz"
    x, y = part.x_train, part.y_train
    np.savez(path, x_train=x[kept], y_train=y[kept], x_test=x[held], y_test=y[held])
    return path


class Lines:
    """Prints a line when a run ends."""

    def started(self, job: Job) -> None:
        """Nothing to say."""

    def moved(self, job: Job, generations: int) -> None:
        """Nothing to say."""

    def waiting(self, job: Job) -> None:
        """Nothing to say."""

    def finished(self, job: Job, *, elsewhere: bool = False) -> None:
        """Say which."""
        print(f"done: {_settings(job)}", flush=True)

    def failed(self, failure: Failure) -> None:
        """Say which, and why."""
        print(f"failed: {_settings(failure.job)}: {failure.reason}", flush=True)


def _settings(job: Job) -> str:
    return f"outer momentum {job.recipe.outer_momentum}, outer lr {job.recipe.outer_lr}"


if __name__ == "__main__":
    sys.exit(main())
