"""How the samples of a run are shown on its page: as small images, or as rows of numbers."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from gradlex.data import Arrays
from gradlex.errors import InputError, MissingDataError
from gradlex.recipe import GIVEN
from gradlex.report._format import plain
from gradlex.runs import StoredRun, load_data

_SIDE = 96
"""Pixels of a thumbnail's longer side, at most."""
_VALUES = 6
"""Numbers of a row that are shown."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One sample: an image as a data address, or words."""

    image: str | None = None
    words: str = ""


class Samples:
    """The samples of a run's data, where it is found; else why it is not."""

    def __init__(self, run: StoredRun, loaded: dict[tuple[Any, ...], Arrays] | None = None) -> None:
        self.missing: str | None = None
        """Why no sample can be shown."""
        self._arrays: Arrays | None = None
        recipe, cache = run.recipe, {} if loaded is None else loaded
        key = (
            recipe.dataset,
            recipe.train_size,
            recipe.test_fraction,
            recipe.image_size,
            run.data.get("fingerprint"),
        )
        if recipe.dataset == GIVEN:
            self.missing = "The run was started from Python with data of its own, which is not stored."
            return
        try:
            if key not in cache:
                cache[key] = load_data(run.path)
            self._arrays = cache[key]
        except (InputError, MissingDataError) as error:
            self.missing = f"The data could not be read again: {error}"

    def show(self, part: Literal["train", "test"], number: int) -> Shown:
        """One sample; nothing where there is no data."""
        values = self._part(part)
        if values is None or not 0 <= number < len(values):
            return Shown()
        sample = np.asarray(values[number])
        if sample.ndim == 3 and 0 not in sample.shape:
            return Shown(image=thumbnail(sample))
        return Shown(words=row(sample))

    def target(self, part: Literal["train", "test"], number: int) -> Any:
        """What is to be learned of a sample; None without the data."""
        arrays = self._arrays
        targets = None if arrays is None else arrays.y_train if part == "train" else arrays.y_test
        return None if targets is None or not 0 <= number < len(targets) else targets[number]

    def _part(self, part: str) -> npt.NDArray[Any] | None:
        if self._arrays is None:
            return None
        return self._arrays.x_train if part == "train" else self._arrays.x_test


def thumbnail(sample: npt.NDArray[Any]) -> str:
    """An image (height, width, channels) as a data address: bytes as they are, other numbers from least to most."""
    values = sample.astype(np.float64)
    if sample.dtype != np.uint8:
        low, high = np.nanmin(values), np.nanmax(values)
        values = (values - low) / ((high - low) or 1) * 255
    pixels = np.nan_to_num(values).clip(0, 255).round().astype(np.uint8)
    pixels = pixels if pixels.shape[2] in (3, 4) else pixels.mean(axis=2).astype(np.uint8)
    image = Image.fromarray(pixels)
    image.thumbnail((_SIDE, _SIDE))
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def row(sample: npt.NDArray[Any]) -> str:
    """The first numbers of a sample, or its text."""
    if sample.dtype.kind in "USO":
        text = plain(" ".join(map(str, sample.ravel())))
        return text if len(text) <= 120 else f"{text[:119]}…"
    flat = sample.ravel()
    first = ", ".join(f"{value:.4g}" for value in flat[:_VALUES].tolist())
    return first if len(flat) <= _VALUES else f"{first}, … ({len(flat):,} numbers)"
