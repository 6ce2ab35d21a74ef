"""The datasets that have names: scikit-learn's digits, and others through torchvision's classes."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torchvision import datasets

from gradlex.data.inputs import printable
from gradlex.data.loaded import Loaded
from gradlex.data.registry import DATASETS
from gradlex.data.samples import ArraySamples
from gradlex.errors import InputError

_CLASSES: dict[str, Any] = {
    "cifar10": datasets.CIFAR10,
    "cifar100": datasets.CIFAR100,
    "svhn": datasets.SVHN,
    "mnist": datasets.MNIST,
    "fashion-mnist": datasets.FashionMNIST,
}
_TIMEOUT = 60  # seconds without an answer; torchvision would wait forever


def load_public(name: str, data_dir: Path | str | None = None) -> Loaded:
    """A dataset of `DATASETS`, downloaded into `data_dir` if it isn't there (default: the user's cache folder)."""
    if name == "digits":
        from sklearn.datasets import load_digits  # takes a second to import

        bunch = load_digits()
        images = torch.from_numpy(np.rint(bunch.images * (255 / 16)).astype(np.uint8))[:, None]
        train, test = ArraySamples(images, torch.from_numpy(bunch.target.astype(np.int64))), None
        names = tuple(map(str, bunch.target_names))
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gradlex")
        folder = cache if data_dir is None else Path(data_dir)
        found = [_downloaded(name, folder, train=part) for part in (True, False)]
        train, test = (_samples(source) for source in found)
        names = tuple(getattr(found[0], "classes", "0123456789"))
    return Loaded(train=train, test=test, labeled=True, class_names=names, info=DATASETS[name])


def _downloaded(name: str, folder: Path, *, train: bool) -> Any:
    """The torchvision dataset. CIFAR's pickles are read only after their checksums are verified."""
    part: dict[str, Any] = {"split": "train" if train else "test"} if name == "svhn" else {"train": train}
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{name}.lock"):  # several processes of one run may need it at once
            return _CLASSES[name](folder, **part, download=True)
    except Exception as error:  # no network, a full disk, a wrong checksum: torchvision raises many kinds
        raise InputError(
            f"{name} could not be downloaded into {printable(folder)}: {printable(error)}. Try again, set another data "
            "folder, or put the files that torchvision looks for there."
        ) from error
    finally:
        socket.setdefaulttimeout(before)


def _samples(source: Any) -> ArraySamples:
    images = torch.as_tensor(source.data)
    if images.ndim == 3:
        images = images[:, None]
    elif images.shape[1] != 3:  # CIFAR's images lie channels-last, SVHN's don't
        images = images.permute(0, 3, 1, 2)
    labels = source.labels if hasattr(source, "labels") else source.targets
    return ArraySamples(images, torch.as_tensor(labels, dtype=torch.int64))
