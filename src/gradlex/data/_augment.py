"""Augmentation of whole batches with an explicit stream: a function of (batch, stream), nothing else.

It is applied inside SubGD only, so selection cannot see an augmented case. These are small classes rather than
closures so that workers in other processes can be given them.
"""

from __future__ import annotations

import inspect
import re
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from numbers import Integral
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex._objects import load_object
from gradlex.data._arrays import escaped
from gradlex.data._inputs import Inputs, describe
from gradlex.data._transfer import sent
from gradlex.errors import InputError, RunError

Augmentation: TypeAlias = Callable[[Any, np.random.Generator], Any]
"""A batch as the data has it, (N, channels, height, width) for images, and a stream -> a batch of the same shape."""

Numbers: TypeAlias = npt.NDArray[np.int64]
"""What an augmentation has drawn for a batch: (numbers, N)."""

_MOST_PADDING = 256  # a padded batch lies in memory as a whole


class _Drawn(ABC):
    """An augmentation that says beforehand what it draws, so that it can travel to the device with other numbers."""

    numbers: ClassVar[int]
    """How many for a sample."""

    @abstractmethod
    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> Numbers:
        """The numbers for a batch of this shape: (numbers, N)."""

    @abstractmethod
    def apply(self, batch: Tensor, numbers: Tensor) -> Tensor:
        """The batch, augmented by its numbers, which lie on its device."""

    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        drawn = self.draw(_checked_images(batch).shape, rng)
        return self.apply(batch, sent(torch.from_numpy(drawn), batch.device))


@dataclass(frozen=True)
class _Crop(_Drawn):
    padding: int
    numbers = 2

    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> Numbers:
        return rng.integers(0, 2 * self.padding + 1, (2, shape[0]))

    def apply(self, batch: Tensor, numbers: Tensor) -> Tensor:
        _, _, height, width = batch.shape
        around = (self.padding,) * 4
        down, right = numbers
        rows = F.pad(batch.permute(0, 2, 3, 1), (0, 0, *around))
        windows = rows.unfold(1, height, 1).unfold(2, width, 1)  # (N, down, right, channels, height, width)
        chosen = windows[torch.arange(len(batch), device=batch.device), down, right]
        return chosen.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class _Flip(_Drawn):
    numbers = 1

    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> Numbers:
        return (rng.random((1, shape[0])) < 0.5).astype(np.int64)

    def apply(self, batch: Tensor, numbers: Tensor) -> Tensor:
        mirrored = numbers[0].bool()
        return torch.where(mirrored[:, None, None, None], batch.flip(3), batch)


@dataclass(frozen=True)
class _Cutout(_Drawn):
    size: int
    numbers = 2

    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> Numbers:
        # The square's centre may be anywhere, so that a part of it may lie outside.
        centres = rng.integers(0, tuple(shape[2:]), (shape[0], 2))
        return np.ascontiguousarray((centres - self.size // 2).T)

    def apply(self, batch: Tensor, numbers: Tensor) -> Tensor:
        _, _, height, width = batch.shape
        top, left = numbers[:, :, None]
        rows, columns = (torch.arange(extent, device=batch.device) for extent in (height, width))
        down = (rows >= top) & (rows < top + self.size)
        right = (columns >= left) & (columns < left + self.size)
        return batch.masked_fill((down[:, :, None] & right[:, None, :])[:, None], 0)


@dataclass(frozen=True)
class _Chain:
    steps: tuple[Augmentation, ...]

    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        for step in self.steps:
            batch = step(batch, rng)
        return batch


def crop(padding: int) -> Augmentation:
    """Pad each image with `padding` zeros on every side and cut a random window of its own size."""
    if not isinstance(padding, Integral) or not 1 <= padding <= _MOST_PADDING:
        raise InputError(f"a random crop needs a whole padding from 1 to {_MOST_PADDING}, got {padding!r}.")
    return _Crop(int(padding))


def flip() -> Augmentation:
    """Mirror each image from left to right with a chance of one half."""
    return _Flip()


def cutout(size: int) -> Augmentation:
    """Blacken a square of `size` pixels at a random place of each image (DeVries & Taylor 2017)."""
    if not isinstance(size, Integral) or not 1 <= size <= _MOST_PADDING:
        raise InputError(f"a cutout needs a whole size from 1 to {_MOST_PADDING}, got {size!r}.")
    return _Cutout(int(size))


def crop_flip(padding: int) -> Augmentation:
    """The paper's augmentation: a random crop, then a random horizontal flip."""
    return _Chain((crop(padding), flip()))


def parse_augment(text: str) -> Augmentation | None:
    """The augmentation that `--augment` names: none, or cropN, flip, cutoutN and functions as module:name, in order."""
    if text == "none":
        return None
    steps: list[Augmentation] = []
    for word in map(str.strip, text.split(",")):
        found = re.fullmatch(r"(crop|cutout)([1-9]\d{0,8})|flip", word)
        if found:
            sized = {"crop": crop, "cutout": cutout}.get(found[1] or "")
            steps.append(sized(int(found[2])) if sized else flip())
        elif ":" in word:
            own = load_object(word, "augmentation")
            check_augment(own)
            steps.append(own)
        else:
            raise InputError(
                f"unknown augmentation {word!r} in {text!r}. Allowed: none, or crop4 (any padding up to "
                f"{_MOST_PADDING}), flip, cutout8 and functions of your own as module:name, joined by commas."
            )
    return _Chain(tuple(steps))


def check_augment(augment: Any) -> None:
    """Refuse what cannot be called with a batch and a stream."""
    if not callable(augment):
        raise InputError(f"augment must be a function (batch, rng) -> batch, got {type(augment).__name__}.")
    try:
        signature = inspect.signature(augment)
    except ValueError:  # a built-in without a signature
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise InputError(
            f"the augmentation {_name(augment)!r} must take (batch, rng), but its parameters are {signature}."
        ) from error


def draw(augment: Augmentation | None, shape: Sequence[int] | None, rng: np.random.Generator) -> Numbers:
    """What an augmentation draws first for a batch of images of this shape, as far as it says so beforehand.

    A function of the user's draws for itself, after this: the stream's numbers fall to the same steps either way.
    """
    drawn = [step.draw(shape, rng) for step in _drawing(augment)] if shape and len(shape) == 4 else []
    return np.concatenate(drawn) if drawn else np.zeros((0, shape[0] if shape else 0), dtype=np.int64)


def augmented_alike(
    augment: Augmentation, batch: Inputs, rng: np.random.Generator, drawn: Tensor | None = None
) -> Any:
    """The augmented batch; another type would be normalised wrongly, another shape not at all.

    `drawn` is what `draw` has drawn, on the batch's device. A failure is a RunError that names the augmentation, so
    that nobody blames the model for it.
    """
    expected = _kind(batch)
    try:
        augmented = augment(batch, rng) if drawn is None else _applied(augment, batch, rng, drawn)
    except (InputError, RunError):
        raise
    except Exception as error:  # whatever a user's function may raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise RunError(
            f"the augmentation {_name(augment)!r} failed: {type(error).__name__}: {escaped(error)} "
            f"(in {frame.filename}, line {frame.lineno})"
        ) from error
    if _kind(augmented) != expected:
        raise RunError(
            f"the augmentation {_name(augment)!r} failed: it must return a batch like the one it gets, "
            f"{describe(batch)}, got {describe(augmented)}."
        )
    return augmented


def _steps(augment: Augmentation | None) -> tuple[Augmentation, ...]:
    return augment.steps if isinstance(augment, _Chain) else () if augment is None else (augment,)


def _drawing(augment: Augmentation | None) -> list[_Drawn]:
    """The steps before the first function of the user's."""
    return list(takewhile(lambda step: isinstance(step, _Drawn), _steps(augment)))  # type: ignore[arg-type]


def _applied(augment: Augmentation, batch: Any, rng: np.random.Generator, drawn: Tensor) -> Any:
    first, own = _drawing(augment), 0
    for step in first:
        batch = step.apply(batch, drawn[own : own + step.numbers])
        own += step.numbers
    for other in _steps(augment)[len(first) :]:
        batch = other(batch, rng)
    return batch


def _name(augment: Any) -> str:
    return str(getattr(augment, "__qualname__", type(augment).__name__))


def _kind(batch: Any) -> Any:
    """What an augmented batch must have in common with the batch it was made from."""
    return (batch.dtype, batch.shape) if isinstance(batch, Tensor) else describe(batch)


def _checked_images(batch: Any) -> Tensor:
    if not isinstance(batch, Tensor) or batch.ndim != 4:
        found = tuple(batch.shape) if isinstance(batch, Tensor) else describe(batch)
        raise InputError(f"crop and flip need images (N, channels, height, width), got {found}.")
    return batch
