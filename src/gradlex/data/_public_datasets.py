"""The datasets that have names: scikit-learn's digits; CIFAR-10, CIFAR-100 and SVHN through torchvision's classes.

CIFAR's archives hold pickles, which torchvision reads only after it has verified the checksums.
"""

from __future__ import annotations

import http.client
import socket
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torchvision import datasets
from torchvision.datasets.utils import check_integrity

from gradlex.data._arrays import Arrays, escaped
from gradlex.errors import InputError, MissingDataError

_TIMEOUT = 60  # seconds without an answer; torchvision itself would wait for ever


def digits(_data_dir: Path, *, download: bool = True) -> Arrays:  # comes with scikit-learn
    """1,797 images of 8 x 8 in bytes, without a test part of its own."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  # a second's import, needed here only

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
    names = tuple(str(name) for name in bunch.target_names)
    return Arrays(
        x_train=images, y_train=bunch.target.astype(np.int64), x_test=None, y_test=None, class_names=names
    )


def cifar10(data_dir: Path, *, download: bool = True) -> Arrays:
    """50,000 training and 10,000 test images (Krizhevsky 2009)."""
    return _cifar(datasets.CIFAR10, data_dir, download=download)


def cifar100(data_dir: Path, *, download: bool = True) -> Arrays:
    """50,000 training and 10,000 test images, fine labels (Krizhevsky 2009)."""
    return _cifar(datasets.CIFAR100, data_dir, download=download)


def svhn(data_dir: Path, *, download: bool = True) -> Arrays:
    """73,257 training and 26,032 test images, without the extra set (Netzer et al. 2011)."""
    splits = ("train", "test")
    train, test = _fetched(
        "svhn",
        data_dir,
        {datasets.SVHN.split_list[split][1]: datasets.SVHN.split_list[split][2] for split in splits},
        [datasets.SVHN.split_list[split][0] for split in splits],
        lambda root, fetch: [datasets.SVHN(root, split=split, download=fetch) for split in splits],
        download=download,
    )
    return Arrays(
        x_train=np.ascontiguousarray(train.data.transpose(0, 2, 3, 1)),
        y_train=train.labels,
        x_test=np.ascontiguousarray(test.data.transpose(0, 2, 3, 1)),
        y_test=test.labels,
        class_names=tuple("0123456789"),
    )


def _cifar(source: Any, data_dir: Path, *, download: bool) -> Arrays:
    train, test = _fetched(
        source.__name__.lower(),
        data_dir,
        {source.filename: source.tgz_md5},
        [source.url],
        lambda root, fetch: [source(root, train=train, download=fetch) for train in (True, False)],
        download=download,
    )
    return Arrays(
        x_train=np.ascontiguousarray(train.data),
        y_train=np.asarray(train.targets, dtype=np.int64),
        x_test=np.ascontiguousarray(test.data),
        y_test=np.asarray(test.targets, dtype=np.int64),
        class_names=tuple(train.classes),
    )


def _fetched(
    name: str,
    data_dir: Path,
    checksums: Mapping[str, str],
    urls: list[str],
    make: Callable[[Path, bool], list[Any]],
    *,
    download: bool,
) -> list[Any]:
    """What `make(root, download)` returns, from the data folder, or downloaded into it whole or not at all."""
    try:
        return make(data_dir, False)
    except (RuntimeError, OSError) as error:  # not there, or not sound: torchvision does not say which
        if not download:
            raise MissingDataError(f"{name} is not in {escaped(data_dir)}.") from error
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        building = tempfile.TemporaryDirectory(dir=data_dir, prefix=f".{name}-")
    except OSError as error:
        raise InputError(
            f"the data folder {escaped(data_dir)} cannot be used: {escaped(error)}. Choose another data_dir."
        ) from error
    sound = [file for file, checksum in checksums.items() if check_integrity(data_dir / file, checksum)]
    damaged = [file for file in checksums if (data_dir / file).exists() and file not in sound]
    try:
        with building as inside, _answering_in(_TIMEOUT):
            fresh = Path(inside)
            for file in sound:
                (fresh / file).symlink_to((data_dir / file).resolve())
            made = make(fresh, True)
            for path in [path for path in fresh.iterdir() if not path.is_symlink()]:
                _move(path, data_dir / path.name)
            return made
    # No network, a wrong checksum, a full disk; an answer that is not HTTP; an archive that is none.
    except (OSError, RuntimeError, EOFError, http.client.HTTPException, tarfile.TarError) as error:
        wrong = (
            f" {', '.join(damaged)} in {escaped(data_dir)} is damaged (its checksum is wrong)."
            if damaged
            else ""
        )
        raise InputError(
            f"{name} could not be downloaded: {escaped(error).rstrip('.')}.{wrong} Without a network, put "
            f"{' and '.join(checksums)} ({', '.join(urls)}) into {escaped(data_dir)} by hand."
        ) from error


def _move(path: Path, target: Path) -> None:
    if target.is_dir():  # an unsound folder goes away with the temporary one; a file is replaced
        target.replace(path.with_name(f"{path.name}.old"))
    path.replace(target)


@contextmanager
def _answering_in(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
