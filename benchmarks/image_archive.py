"""Make the archives of the experiments on 16 x 16 images: one to develop a method with, one to prove it with.

    python benchmarks/image_archive.py cifar10.npz dev16.npz --develop 5000     # to choose settings
    python benchmarks/image_archive.py cifar10.npz cifar10-16.npz               # all images, to test what was chosen

With --develop N, N training images train and N others stand where the test images were. The test images of the first
archive are not in it, so nothing can be tuned on them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

SEED = 2022


def halved(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Images of half the height and width, by the mean of 2 x 2 pixels."""
    count, height, width = images.shape[:3]
    blocks = images.reshape(count, height // 2, 2, width // 2, 2, -1)
    return np.round(blocks.mean(axis=(2, 4))).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--develop", type=int, metavar="N", help="N training and N validation images")
    asked = parser.parse_args()
    with np.load(asked.archive) as archive:
        arrays = {name: archive[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    if asked.develop:
        order = np.random.default_rng(SEED).permutation(len(arrays["y_train"]))
        train, validation = order[: asked.develop], order[asked.develop : 2 * asked.develop]
        x, y = arrays["x_train"], arrays["y_train"]
        arrays = {"x_train": x[train], "y_train": y[train], "x_test": x[validation], "y_test": y[validation]}
    arrays |= {name: halved(arrays[name]) for name in ("x_train", "x_test")}
    np.savez(asked.out, **arrays)
    print(f"{asked.out}: {len(arrays['y_train']):,} training and {len(arrays['y_test']):,} test images")


if __name__ == "__main__":
    main()
