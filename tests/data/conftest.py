"""Small data in the forms that users have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def archive(tmp_path: Path) -> Callable[..., str]:
    """Write a .npz archive: three classes of 8 x 8 color images unless changed; None leaves a key out."""

    def write(name: str = "data.npz", **changes: Any) -> str:
        rng = np.random.default_rng(0)
        arrays: dict[str, Any] = {
            "x_train": rng.integers(0, 256, (30, 8, 8, 3), dtype=np.uint8),
            "y_train": np.arange(30) % 3,
            "x_test": rng.integers(0, 256, (9, 8, 8, 3), dtype=np.uint8),
            "y_test": np.arange(9) % 3,
            **changes,
        }
        np.savez(tmp_path / name, **{key: array for key, array in arrays.items() if array is not None})
        return str(tmp_path / name)

    return write


@pytest.fixture
def image() -> Callable[..., Path]:
    """Write one image of one color, making its folders."""

    def write(path: Path, color: Any = (200, 100, 50), mode: str = "RGB") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, (12, 12), color).save(path)
        return path

    return write


@pytest.fixture
def images(tmp_path: Path, image: Callable[..., Path]) -> Path:
    """A folder of images: cats are red, dogs are blue; four a class for training, two for testing."""
    root = tmp_path / "images"
    for part, number in (("train", 4), ("test", 2)):
        for i in range(number):
            image(root / part / "dog" / f"{i}.png", (0, 0, 250 - i))
            image(root / part / "cat" / f"{i}.png", (250 - i, 0, 0))
    return root
