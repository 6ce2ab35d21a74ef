"""Augmentation of whole batches with an explicit stream: a function of (batch, stream), nothing else.

It is applied inside SubGD only, so selection cannot see an augmented case. These are small classes rather than
closures so that workers in other processes can be given them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex.errors import InputError

Augmentation: TypeAlias = Callable[[Tensor, np.random.Generator], Tensor]
"""(N, channels, height, width) pictures, in the type of the data, and a stream -> pictures of the same shape."""

_MOST_PADDING = 256  # a padded batch lies in memory as a whole


@dataclass(frozen=True)
class _Crop:
    padding: int

    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        _, _, height, width = _pictures(batch).shape
        around = (self.padding,) * 4
        down, right = torch.from_numpy(rng.integers(0, 2 * self.padding + 1, (2, len(batch)))).to(
            batch.device
        )
        rows = F.pad(batch.permute(0, 2, 3, 1), (0, 0, *around))
        windows = rows.unfold(1, height, 1).unfold(2, width, 1)  # (N, down, right, channels, height, width)
        chosen = windows[torch.arange(len(batch), device=batch.device), down, right]
        return chosen.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class _Flip:
    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        mirrored = torch.from_numpy(rng.random(len(batch)) < 0.5).to(batch.device)
        return torch.where(mirrored[:, None, None, None], _pictures(batch).flip(3), batch)


@dataclass(frozen=True)
class _Chain:
    steps: tuple[Augmentation, ...]

    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        for step in self.steps:
            batch = step(batch, rng)
        return batch


def crop(padding: int) -> Augmentation:
    """Pad each picture with `padding` zeros on every side and cut a random window of its own size."""
    if not isinstance(padding, Integral) or not 1 <= padding <= _MOST_PADDING:
        raise InputError(f"a random crop needs a whole padding from 1 to {_MOST_PADDING}, got {padding!r}.")
    return _Crop(int(padding))


def flip() -> Augmentation:
    """Mirror each picture from left to right with a chance of one half."""
    return _Flip()


def crop_flip(padding: int) -> Augmentation:
    """The paper's augmentation: a random crop, then a random horizontal flip."""
    return _Chain((crop(padding), flip()))


def parse_augment(text: str) -> Augmentation | None:
    """The augmentation that `--augment` names: none, cropN, flip, or cropN,flip."""
    if text == "none":
        return None
    steps: list[Augmentation] = []
    for word in text.split(","):
        found = re.fullmatch(r"crop([1-9]\d{0,8})|flip", word.strip())
        if not found:
            raise InputError(
                f"unknown augmentation {word.strip()!r} in {text!r}. "
                f"Allowed: none, or crop4 (any padding up to {_MOST_PADDING}) and flip, joined by a comma."
            )
        steps.append(crop(int(found[1])) if found[1] else flip())
    return _Chain(tuple(steps))


def _pictures(batch: Tensor) -> Tensor:
    if batch.ndim != 4:
        raise InputError(
            f"crop and flip need pictures (N, channels, height, width), got {tuple(batch.shape)}."
        )
    return batch
