"""The datasets that have names: scikit-learn's digits, and others through torchvision's classes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from gradlex.data.inputs import printable
from gradlex.data.samples import ArraySamples
from gradlex.errors import InputError


@dataclass(frozen=True)
class DatasetInfo:
    """One dataset, and the settings that a recipe takes if it leaves them open.

    Methods with a population of p train for p + 1 times the baseline's `epochs`.
    """

    name: str
    description: str
    batch_size: int
    augment: str
    epochs: int


_INFOS = (
    DatasetInfo("digits", "1,797 handwritten digits, 8 x 8, 10 classes; comes with scikit-learn", 32, "none", 12),
    DatasetInfo("cifar10", "60,000 images, 32 x 32 x 3, 10 classes (Krizhevsky 2009)", 128, "crop4,flip", 200),
    DatasetInfo("cifar100", "60,000 images, 32 x 32 x 3, 100 classes (Krizhevsky 2009)", 64, "crop4,flip", 200),
    DatasetInfo("svhn", "99,289 house numbers, 32 x 32 x 3, no extra set (Netzer et al. 2011)", 64, "crop4,flip", 200),
    DatasetInfo("mnist", "70,000 handwritten digits, 28 x 28, 10 classes (LeCun et al. 1998)", 64, "none", 20),
    DatasetInfo("fashion-mnist", "70,000 images of clothing, 28 x 28, 10 classes (Xiao et al. 2017)", 64, "none", 20),
)

DATASETS = {info.name: info for info in _INFOS}
"""All but digits are downloaded when they are first used."""

OWN = DatasetInfo("your own", "a .npz archive, a folder of images, a table (.csv, .parquet), or arrays", 64, "none", 20)
"""The settings for data without an entry; files of color images in bytes are cropped by an eighth and flipped."""


def load_public(name: str, data_dir: Path | str | None) -> tuple[ArraySamples, ArraySamples | None, tuple[str, ...]]:
    """Training samples, test samples and class names; downloaded into `data_dir` (default: the user's cache folder)."""
    if name == "digits":
        from sklearn.datasets import load_digits  # takes a second to import

        bunch = load_digits()
        images = torch.from_numpy(np.rint(bunch.images * (255 / 16)).astype(np.uint8))[:, None]
        samples = ArraySamples(images, torch.from_numpy(bunch.target.astype(np.int64)))
        return samples, None, tuple(map(str, bunch.target_names))

    from torchvision import datasets

    source: Any = {
        "cifar10": datasets.CIFAR10,
        "cifar100": datasets.CIFAR100,
        "svhn": datasets.SVHN,
        "mnist": datasets.MNIST,
        "fashion-mnist": datasets.FashionMNIST,
    }[name]
    parts = [{"split": part} if name == "svhn" else {"train": part == "train"} for part in ("train", "test")]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gradlex")
    folder = cache if data_dir is None else Path(data_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{name}.lock"):  # several processes of one run may need it at once
            train, test = (source(folder, **part, download=True) for part in parts)
    except Exception as error:  # no network, a full disk, a wrong checksum: torchvision raises many kinds
        raise InputError(
            f"{name} could not be downloaded into {printable(folder)}: {printable(error)}. Try again, set another data "
            "folder, or put the files that torchvision looks for there."
        ) from error
    return _samples(train), _samples(test), tuple(getattr(train, "classes", "0123456789"))


def _samples(source: Any) -> ArraySamples:
    images = torch.as_tensor(source.data)
    if images.ndim == 3:
        images = images[:, None]
    elif images.shape[1] != 3:  # CIFAR's images lie channels-last, SVHN's don't
        images = images.permute(0, 3, 1, 2)
    labels = source.labels if hasattr(source, "labels") else source.targets
    return ArraySamples(images, torch.as_tensor(labels, dtype=torch.int64))
