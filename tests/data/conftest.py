"""Small data in the forms that users and the datasets' own sites have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Archive = Callable[..., Path]
ImageWriter = Callable[..., Path]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Write a .npz archive: three classes of 8 x 8 colour images unless told otherwise; None leaves a key out."""

    def write(name: str = "data.npz", **changes: Any) -> Path:
        rng = np.random.default_rng(0)
        arrays: dict[str, Any] = {
            "x_train": rng.integers(0, 256, (30, 8, 8, 3), dtype=np.uint8),
            "y_train": np.arange(30) % 3,
            "x_test": rng.integers(0, 256, (9, 8, 8, 3), dtype=np.uint8),
            "y_test": np.arange(9) % 3,
        }
        arrays.update(changes)
        path = tmp_path / name
        np.savez(path, **{key: array for key, array in arrays.items() if array is not None})
        return path

    return write


@pytest.fixture
def image() -> ImageWriter:
    """Write one image of one colour, making its folders."""

    def write(path: Path, colour: Any = (200, 100, 50), mode: str = "RGB", size: int = 12) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, (size, size), colour).save(path)
        return path

    return write


@pytest.fixture
def images(tmp_path: Path, image: ImageWriter) -> Path:
    """A folder of images: cats are red, dogs are blue; four a class for training, two for testing."""
    root = tmp_path / "images"
    for part, number in (("train", 4), ("test", 2)):
        for i in range(number):
            image(root / part / "dog" / f"{i}.png", (0, 0, 250 - i))
            image(root / part / "cat" / f"{i}.png", (250 - i, 0, 0))
    return root
