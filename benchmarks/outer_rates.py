"""Which rate suits an outer momentum, found on pictures held out of the training part, never on test pictures.

A fifth of the training part that the experiments use (`--train-size`) is held out and stands where the test pictures
would; the rest is trained on, with the mean of the candidates as the parent (`--promotion average`), for a part of
the experiments' generations. Finished runs are not done again, and one that was interrupted goes on.

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
from gradlex.experiments import Cell, Job, prepare, run_jobs
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
    asked = parser.parse_args()
    print(machine())
    shared = Recipe(
        dataset=str(held_out(asked.dataset, asked.train_size, asked.runs)),
        model=asked.model,
        promotion="average",
        generations=asked.generations,
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
    jobs = prepare(cells, asked.runs, device=cpu)
    try:
        failures = run_jobs(
            jobs, at_once=asked.jobs, device=cpu, data_dir=None, evaluations=5, watcher=Lines()
        )
    except InterruptedRun as interruption:
        print(interruption)
        return interruption.exit_code
    for failure in failures:  # a rate that is too large diverges: that is an answer too
        print(f"{failure.job.folder.name}: {failure.reason}")
    print(f"{'momentum':>8}{'rate':>6}{'held-out accuracy':>19}{'training accuracy':>19}")
    for job in jobs:
        found = stored_run(job.folder).result if job.state == "done" else None
        told = (
            [f"{found[part]:.2%}" for part in ("test_accuracy", "train_accuracy")]
            if found
            else ["failed", "-"]
        )
        print(f"{job.recipe.outer_momentum:>8}{job.recipe.outer_lr:>6}{told[0]:>19}{told[1]:>19}")
    return 0


def held_out(dataset: str, train_size: int, folder: Path) -> Path:
    """An archive of four fifths of the experiments' training part, with the last fifth in the test pictures' place."""
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

    def finished(self, job: Job, test_accuracy: float | None) -> None:
        """Say which."""
        print(f"done: momentum {job.recipe.outer_momentum}, rate {job.recipe.outer_lr}", flush=True)

    def failed(self, job: Job, reason: str) -> None:
        """Say which, and why."""
        print(
            f"failed: momentum {job.recipe.outer_momentum}, rate {job.recipe.outer_lr}: {reason}", flush=True
        )


if __name__ == "__main__":
    sys.exit(main())
