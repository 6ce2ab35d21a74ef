"""How fast batches are drawn and augmented, against a DataLoader, and how much memory the images take.

Speed: crop 4, flip and normalisation of 32 x 32 x 3 images with one thread, against a DataLoader without
workers whose Dataset applies torchvision's transforms to each PIL image; both in turns, in one run.

Memory: a process that loads 60,000 random images from a .npz archive and trains a generation of a population of
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

from gradlex.callbacks import Callback, LiveRun, Record
from gradlex.data import ArraySamples, Normalization, crop_flip
from gradlex.recipe import Recipe
from gradlex.runs import Execution, Named, start

BATCH = 128


def main() -> int:
    print(machine())
    speed()
    memory()
    return 0


def speed() -> None:
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
        for first in range(0, len(x), BATCH):
            samples.augmented(order[first : first + BATCH], rng)

    def theirs() -> None:
        for _ in loader:
            pass

    ours(), theirs()  # warm up
    pairs = [(len(x) / seconds(ours), len(few) / seconds(theirs)) for _ in range(7)]
    mine, loading = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for own, other in pairs)
    print(f"gradlex, crop 4 and flip, batches of {BATCH}: {mine:,.0f} images/s")
    print(f"DataLoader with torchvision transforms, no workers: {loading:,.0f} images/s")
    print(f"ratio: {ratio:.1f}")


def seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def memory() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base, held = (measured(Path(folder), images) for images in (600, 60_000))
    size = (60_000 - 600) * 32 * 32 * 3 / 1e6
    print(f"60,000 images of 32 x 32 x 3 bytes: {60_000 * 32 * 32 * 3 / 1e6:.0f} MB")
    for moment in base:
        extra = held[moment] - base[moment]
        print(
            f"resident {moment}: {held[moment]:.0f} MB, {extra:.0f} MB of it for the images: "
            f"{extra / size:.2f} copies"
        )


def measured(folder: Path, images: int) -> dict[str, float]:
    """A new process's resident megabytes, by moment."""
    rng = np.random.default_rng(0)
    path = folder / f"{images}.npz"
    train, test = images * 5 // 6, images // 6
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
    memory = Memory()
    start(Named(), recipe, Execution(workers=1, device="cpu"), callbacks=[memory])
    print(json.dumps({**memory.moments, "at the peak": peak()}))


class Memory(Callback):
    """Notes the resident bytes at the moments of a run."""

    def __init__(self) -> None:
        self.moments: dict[str, int] = {}

    def on_start(self, run: LiveRun) -> None:
        """Data and model are there."""
        self.moments["after loading"] = resident()

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """All candidates were trained."""
        self.moments[f"after a generation of {len(record.losses)} candidates"] = resident()

    def on_end(self, run: LiveRun) -> None:
        """The result is there."""
        self.moments["after the final evaluation"] = resident()


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
