"""Whether bfloat16 costs accuracy: the same runs of SGD in float32 and in bfloat16, paired by their seeds.

ResNet20 on a part of CIFAR-10. Each run has a folder under --runs. Rerun the command to continue; finished runs are
skipped.

    python benchmarks/bfloat16_accuracy.py --dataset cifar10.npz --runs runs/bfloat16 [--seeds 3] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _common import machine
from scipy import stats

PRECISIONS = ("float32", "bfloat16")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="cifar10", help="a name, or a .npz archive")
    parser.add_argument("--runs", type=Path, default=Path("runs/bfloat16"))
    parser.add_argument("--seeds", type=int, default=3, help="runs each way; at least 2")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, one thread each")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--train-size", type=int, default=5_000)
    parser.add_argument("--generations", type=int, default=20)
    given = parser.parse_args()
    print(machine())
    with ThreadPoolExecutor(given.jobs) as pool:
        runs = {
            (precision, seed): pool.submit(accuracy, given, precision, seed)
            for seed in range(given.seeds)
            for precision in PRECISIONS
        }
    found = {run: future.result() for run, future in runs.items()}
    print(f"{given.model}, {given.train_size:,} samples, {given.generations} epochs; test accuracy")
    print(f"{'seed':>4}{'float32':>10}{'bfloat16':>10}{'difference':>12}")
    pairs = [tuple(found[precision, seed] for precision in PRECISIONS) for seed in range(given.seeds)]
    for seed, (full, half) in enumerate(pairs):
        print(f"{seed:>4}{full:>10.2%}{half:>10.2%}{half - full:>+12.2%}")
    differences = [half - full for full, half in pairs]
    interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    print(
        f"bfloat16 less float32: {statistics.mean(differences):+.2%}, 95 % interval {interval.low:+.2%} to "
        f"{interval.high:+.2%} (paired t, {given.seeds} seeds)"
    )
    return 0


def accuracy(given: argparse.Namespace, precision: str, seed: int) -> float:
    """The final test accuracy of one run, which is started or resumed first if it is not finished."""
    folder = given.runs / f"{precision}-seed{seed}"
    result = folder / "result.json"
    if not result.exists():
        options = {
            "dataset": given.dataset,
            "model": given.model,
            "selection": "sgd",
            "train-size": given.train_size,
            "generations": given.generations,
            "batch-size": 32,
            "lr": 0.05,
            "augment": "crop4,flip",
            "precision": precision,
            "threads": 1,
            "workers": 1,
            "evaluate-every": given.generations,
            "seed": seed,
            "out": folder,
        }
        flags = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        words = ["resume", str(folder)] if (folder / "recipe.json").exists() else ["train", *flags]
        done = subprocess.run(
            [sys.executable, "-m", "gradlex", *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{folder} failed:\n{done.stderr or done.stdout}")
    return float(json.loads(result.read_text())["metrics"]["test"]["accuracy"])


if __name__ == "__main__":
    sys.exit(main())
