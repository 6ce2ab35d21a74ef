"""How fast batches are drawn and augmented, against a DataLoader, and what memory the pictures take.

Speed: crop 4, flip and normalisation of 32 x 32 x 3 pictures with one thread, against a DataLoader without
workers whose Dataset applies torchvision's transforms to each PIL picture; both in turns, in one run.

Memory: a process that loads 60,000 random pictures from a .npz archive and trains a generation of a population of
four, less one that does the same with 600; so the libraries and the networks cancel out. Each is started anew.

    python benchmarks/data.py
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from _common import machine
from _plain import plain_loader

from gradlex.data import ArraySamples, Normalization, crop_flip
from gradlex.recipe import Recipe
from gradlex.runs import Record, execute, named_problem

BATCH = 128
WANTED_SPEED, WANTED_RATIO = 20_000, 3
WANTED_COPIES = 1.5  # at the peak; one copy, and room for the allocator's and the run's own arrays


def main() -> int:
    print(machine())
    met = [speed(), memory()]
    return 0 if all(met) else 1


def speed() -> bool:
    torch.set_num_threads(1)
    x = np.random.default_rng(0).integers(0, 256, (20_000, 32, 32, 3), dtype=np.uint8)
    normalization = Normalization.of(x)
    samples = ArraySamples(
        torch.from_numpy(x).permute(0, 3, 1, 2),
        torch.zeros(len(x), dtype=torch.int64),
        normalization=normalization,
        augment=crop_flip(4),
    )
    few = x[:4_000]
    loader = plain_loader(few, BATCH)

    def ours() -> None:
        rng = np.random.default_rng(0)
        order = rng.permutation(len(x))
        for start in range(0, len(x), BATCH):
            samples.augmented(order[start : start + BATCH], rng)

    def theirs() -> None:
        for _ in loader:
            pass

    ours(), theirs()  # once for warming up
    pairs = [(len(x) / seconds(ours), len(few) / seconds(theirs)) for _ in range(7)]
    mine, loading = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for own, other in pairs)
    print(f"gradlex, crop 4 and flip, batches of {BATCH}: {mine:,.0f} pictures/s (wanted: {WANTED_SPEED:,})")
    print(f"DataLoader with torchvision transforms, no workers: {loading:,.0f} pictures/s")
    print(f"ratio: {ratio:.1f} (wanted: {WANTED_RATIO})")
    return mine >= WANTED_SPEED and ratio >= WANTED_RATIO


def seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def memory() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        base, held = (measured(Path(folder), pictures) for pictures in (600, 60_000))
    size = (60_000 - 600) * 32 * 32 * 3 / 1e6
    print(f"60,000 pictures of 32 x 32 x 3 bytes: {60_000 * 32 * 32 * 3 / 1e6:.0f} MB")
    met = True
    for moment in base:
        extra = held[moment] - base[moment]
        met &= extra / size < WANTED_COPIES
        print(
            f"resident {moment}: {held[moment]:.0f} MB, {extra:.0f} MB of it for the pictures: "
            f"{extra / size:.2f} copies (wanted: under {WANTED_COPIES})"
        )
    return met


def measured(folder: Path, pictures: int) -> dict[str, float]:
    """A new process's resident megabytes, by moment."""
    rng = np.random.default_rng(0)
    path = folder / f"{pictures}.npz"
    train, test = pictures * 5 // 6, pictures // 6
    np.savez(
        path,
        x_train=rng.integers(0, 256, (train, 32, 32, 3), dtype=np.uint8),
        y_train=np.arange(train) % 10,
        x_test=rng.integers(0, 256, (test, 32, 32, 3), dtype=np.uint8),
        y_test=np.arange(test) % 10,
    )
    answer = subprocess.run(
        [sys.executable, __file__, "--child", str(path)], check=True, capture_output=True, text=True
    )
    path.unlink()
    return {moment: float(size) / 1e6 for moment, size in json.loads(answer.stdout).items()}


def child(path: str) -> None:
    """Load and train, and print the resident bytes at some moments and at the peak."""
    recipe = Recipe(
        dataset=path, model="mlp", width=0.1, population=4, generations=1, batch_size=128, threads=1, lr=0.01
    )
    problem = named_problem(recipe, device=torch.device("cpu"), data_dir=None)
    moments = {"after loading": resident()}

    def generation(record: Record) -> None:
        assert len(record.losses) == 4
        moments["after a generation of 4 candidates"] = resident()

    execute(problem, callback=generation)
    moments["after the final evaluation"] = resident()
    print(json.dumps({**moments, "at the peak": peak()}))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    # Not getrusage: its maximum is inherited from the process that started this one.
    return 1024 * int(re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    archive = parser.parse_args().child
    if archive is not None:
        child(archive)
    else:
        sys.exit(main())
