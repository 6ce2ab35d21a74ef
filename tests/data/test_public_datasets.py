"""The datasets that have names, from small files in the layout of their publishers."""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile

import numpy as np
import pytest
import torch
from torchvision import datasets

from gradlex import InputError, Recipe
from gradlex.data import DATASETS, prepare


def test_digits_come_with_scikit_learn():
    parts = prepare(None, Recipe(dataset="digits"))
    assert (len(parts.train), len(parts.test), parts.sample_shape) == (1438, 359, (1, 8, 8))
    assert (parts.recipe.batch_size, parts.recipe.augment, parts.info.epochs) == (32, "none", 12)
    counts = parts.test.targets.bincount()
    assert counts.max() - counts.min() <= 3
    assert set(DATASETS) == {"digits", "cifar10", "cifar100", "svhn", "mnist", "fashion-mnist"}


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """A tiny CIFAR-10 whose checksums torchvision accepts."""
    rng, files = np.random.default_rng(0), {"batches.meta": {"label_names": [f"class {i}" for i in range(10)]}}
    for name, _ in [*datasets.CIFAR10.train_list, *datasets.CIFAR10.test_list]:
        files[name] = {"data": rng.integers(0, 256, (10, 3072), dtype=np.uint8), "labels": list(range(10))}
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as archive:
        for name, content in files.items():
            packed = pickle.dumps(content)
            info = tarfile.TarInfo(f"{datasets.CIFAR10.base_folder}/{name}")
            info.size = len(packed)
            archive.addfile(info, io.BytesIO(packed))
            files[name] = hashlib.md5(packed).hexdigest()
    for listed in ("train_list", "test_list"):
        names = [name for name, _ in getattr(datasets.CIFAR10, listed)]
        monkeypatch.setattr(datasets.CIFAR10, listed, [[name, files[name]] for name in names])
    monkeypatch.setattr(datasets.CIFAR10, "meta", {**datasets.CIFAR10.meta, "md5": files["batches.meta"]})
    monkeypatch.setattr(datasets.CIFAR10, "filename", "cifar.tar.gz")
    monkeypatch.setattr(datasets.CIFAR10, "url", "http://127.0.0.1:9/cifar.tar.gz")
    md5 = hashlib.md5((tmp_path / "cifar.tar.gz").read_bytes()).hexdigest()
    monkeypatch.setattr(datasets.CIFAR10, "tgz_md5", md5)
    return tmp_path


def test_cifar10_is_read_through_torchvision(cifar):
    parts = prepare(None, Recipe(dataset="cifar10"), data_dir=cifar)
    assert (len(parts.train), len(parts.test), parts.sample_shape) == (50, 10, (3, 32, 32))
    assert (parts.recipe.augment, parts.recipe.batch_size) == ("crop4,flip", 128)
    assert parts.class_names[3] == "class 3"
    assert parts.train.clean(np.arange(2))[0].dtype == torch.uint8


def test_a_download_that_fails_says_where_the_files_belong(cifar):
    (cifar / "cifar.tar.gz").unlink()
    with pytest.raises(InputError, match=f"cifar10 could not be downloaded into {cifar}"):
        prepare(None, Recipe(dataset="cifar10"), data_dir=cifar)
