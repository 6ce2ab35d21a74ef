"""Make an archive for developing a method: some training images, and others in the place of the test images.

    python benchmarks/validation_archive.py cifar10.npz dev.npz --train 5000 --validation 5000

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
    asked = parser.parse_args()
    with np.load(asked.archive) as archive:
        x, y = archive["x_train"], archive["y_train"]
    order = np.random.default_rng(SEED).permutation(len(y))
    train, validation = order[: asked.train], order[asked.train : asked.train + asked.validation]
    np.savez(asked.out, x_train=x[train], y_train=y[train], x_test=x[validation], y_test=y[validation])
    print(f"{asked.out}: {len(train):,} training and {len(validation):,} validation images")


if __name__ == "__main__":
    main()
