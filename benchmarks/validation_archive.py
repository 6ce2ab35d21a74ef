"""Make an archive for developing a method: some training images, and others in the place of the test images.

    python benchmarks/validation_archive.py cifar10.npz dev.npz --train 5000 --validation 5000
    python benchmarks/validation_archive.py cifar10.npz dev16.npz --half      # half the side, four times as fast

The test images of the first archive are not in the second one, so nothing can be tuned on them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

SEED = 2022


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", type=int, default=5_000)
    parser.add_argument("--validation", type=int, default=5_000)
    parser.add_argument(
        "--half", action="store_true", help="halve height and width, by the mean of 2 x 2 pixels"
    )
    asked = parser.parse_args()
    with np.load(asked.archive) as archive:
        x, y = archive["x_train"], archive["y_train"]
    if asked.half:
        blocks = x.reshape(len(x), x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1)
        x = np.round(blocks.mean(axis=(2, 4))).astype(np.uint8)
    order = np.random.default_rng(SEED).permutation(len(y))
    train, validation = order[: asked.train], order[asked.train : asked.train + asked.validation]
    np.savez(asked.out, x_train=x[train], y_train=y[train], x_test=x[validation], y_test=y[validation])
    print(f"{asked.out}: {len(train):,} training and {len(validation):,} validation images")


if __name__ == "__main__":
    main()
