"""Augmentation of whole batches with an explicit stream: a function of (batch, rng), nothing else.

It is applied inside SubGD only, so selection can't see an augmented case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from gradlex._checks import check
from gradlex._objects import load_object
from gradlex.data.inputs import describe
from gradlex.errors import InputError

Augmentation: TypeAlias = Callable[[Any, np.random.Generator], Any]
"""A batch as the data has it, (N, channels, height, width) for images, and a stream -> a batch of the same shape."""

_Pixels: TypeAlias = Annotated[int, Field(ge=1, le=256), "a whole number of pixels from 1 to 256"]


@dataclass(frozen=True)
class _Crop:
    padding: int

    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        count, _, height, width = _images(batch).shape
        drawn = rng.integers(0, 2 * self.padding + 1, (2, count))
        down, right = torch.from_numpy(drawn).to(batch.device)
        rows = F.pad(batch.permute(0, 2, 3, 1), (0, 0, *(self.padding,) * 4))
        windows = rows.unfold(1, height, 1).unfold(2, width, 1)  # (N, down, right, channels, height, width)
        chosen = windows[torch.arange(count, device=batch.device), down, right]
        return chosen.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class _Chain:
    steps: tuple[Augmentation, ...]

    def __call__(self, batch: Any, rng: np.random.Generator) -> Any:
        for step in self.steps:
            batch = step(batch, rng)
        return batch


def crop(padding: int) -> Augmentation:
    """Pad each image with `padding` zeros on every side and cut a random window of its own size."""
    return _Crop(check("the padding of a crop", _Pixels, padding))


def flip() -> Augmentation:
    """Mirror each image from left to right with a chance of one half.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import flip
        >>> images = torch.tensor([1, 2]).expand(3, 1, 1, 2)
        >>> flip()(images, np.random.default_rng(0)).flatten().tolist()
        [1, 2, 2, 1, 2, 1]
    """
    return _flipped


def _flipped(batch: Tensor, rng: np.random.Generator) -> Tensor:
    mirrored = torch.from_numpy(rng.random(len(_images(batch))) < 0.5).to(batch.device)
    return torch.where(mirrored[:, None, None, None], batch.flip(3), batch)


def crop_flip(padding: int) -> Augmentation:
    """The paper's augmentation: a random crop, then a random horizontal flip.

    Examples:
        >>> from gradlex.data import crop_flip
        >>> from gradlex.data.augment import parse_augment
        >>> crop_flip(4) == parse_augment("crop4,flip")
        True
    """
    return _Chain((crop(padding), flip()))


def parse_augment(text: str) -> Augmentation | None:
    """The augmentation that a text names: none, or some of cropN, flip and module:function, in order.

    Examples:
        >>> from gradlex.data.augment import parse_augment
        >>> parse_augment("crop4") is None, parse_augment("none") is None
        (False, True)
    """
    if text.strip() == "none":
        return None
    steps: list[Augmentation] = []
    for word in map(str.strip, text.split(",")):
        if re.fullmatch(r"crop\d{1,9}", word):
            steps.append(crop(int(word.removeprefix("crop"))))
        elif ":" in word:
            steps.append(load_object(word, "augmentation"))
        elif word == "flip":
            steps.append(flip())
        else:
            raise InputError(
                f"unknown augmentation {word!r:.80}. Allowed: none, or crop4 (any padding), flip and functions of your "
                "own as module:name, joined by commas."
            )
    return _Chain(tuple(steps))


def _images(batch: Any) -> Tensor:
    if not isinstance(batch, Tensor) or batch.ndim != 4:
        raise InputError(f"crop and flip need images (N, channels, height, width), got {describe(batch)}.")
    return batch
