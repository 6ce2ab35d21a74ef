"""Augmentation of whole batches with an explicit stream: a function of (batch, rng), nothing else.

It is applied inside SubGD only, so selection can't see an augmented case.
"""

from __future__ import annotations

import inspect
import random
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from gradlex._checks import check
from gradlex._objects import load_object
from gradlex.data.inputs import Inputs, describe, printable
from gradlex.errors import InputError, RunError

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
class _Flip:
    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        mirrored = torch.from_numpy(rng.random(len(_images(batch))) < 0.5).to(batch.device)
        return torch.where(mirrored[:, None, None, None], batch.flip(3), batch)


@dataclass(frozen=True)
class _Cutout:
    size: int

    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        count, _, height, width = _images(batch).shape
        # The center may be anywhere, so a part of the square may lie outside.
        corners = rng.integers(0, (height, width), (count, 2)) - self.size // 2
        top, left = torch.from_numpy(corners.T).to(batch.device)[:, :, None]
        rows, columns = (torch.arange(extent, device=batch.device) for extent in (height, width))
        down = (rows >= top) & (rows < top + self.size)
        right = (columns >= left) & (columns < left + self.size)
        return batch.masked_fill((down[:, :, None] & right[:, None, :])[:, None], 0)


@dataclass(frozen=True)
class _Transform:
    """A transform of torchvision.transforms.v2, image by image; it draws from the global generators."""

    transform: Any

    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        with global_generators(rng.integers(0, 2**32, 3).tolist()):
            return torch.stack([self.transform(image) for image in batch])


@dataclass(frozen=True)
class _Chain:
    steps: tuple[Any, ...]

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
    return _Flip()


def crop_flip(padding: int) -> Augmentation:
    """The paper's augmentation: a random crop, then a random horizontal flip.

    Examples:
        >>> from gradlex.data import crop_flip, parse_augment
        >>> crop_flip(4) == parse_augment("crop4,flip")
        True
    """
    return _Chain((crop(padding), flip()))


def cutout(size: int) -> Augmentation:
    """Blacken a square of `size` pixels at a random place of each image (DeVries & Taylor 2017)."""
    return _Cutout(check("the size of a cutout", _Pixels, size))


def parse_augment(text: str) -> Augmentation | None:
    """The augmentation that a text names: none, or some of cropN, flip, cutoutN and module:function, in order.

    Examples:
        >>> from gradlex.data import parse_augment
        >>> parse_augment("crop4,cutout8") is None, parse_augment("none") is None
        (False, True)
    """
    if text.strip() == "none":
        return None
    steps: list[Augmentation] = []
    for word in map(str.strip, text.split(",")):
        sized = re.fullmatch(r"(crop|cutout)(\d{1,9})", word)
        if sized:
            steps.append((crop if sized[1] == "crop" else cutout)(int(sized[2])))
        elif ":" in word:
            steps.append(as_augmentation(load_object(word, "augmentation")))
        elif word == "flip":
            steps.append(flip())
        else:
            raise InputError(
                f"unknown augmentation {word!r:.80} in {text!r:.80}. Allowed: none, or crop4 (any padding), flip, "
                "cutout8 and functions of your own as module:name, joined by commas."
            )
    return _Chain(tuple(steps))


def as_augmentation(given: Any) -> Augmentation:
    """What was given as an augmentation: a function, a transform of torchvision.transforms.v2, or a list of them."""
    if isinstance(given, list | tuple):
        return _Chain(tuple(as_augmentation(each) for each in given))
    v2 = sys.modules.get("torchvision.transforms.v2")  # whoever gives a transform has imported it
    if v2 is not None and isinstance(given, v2.Transform) and not isinstance(given, v2.MixUp | v2.CutMix):
        return _Transform(given)
    try:
        if not callable(given) or type(given).__module__.startswith("torchvision."):
            raise TypeError("it mixes targets" if callable(given) else "it can't be called")  # noqa: TRY301
        inspect.signature(given).bind(None, None)
    except (TypeError, ValueError) as error:
        raise InputError(
            "augment must be a function (batch, rng) -> batch, a transform of torchvision.transforms.v2 that leaves "
            f"targets alone, or a list of them, got {given!r:.80}: {error}."
        ) from error
    checked: Augmentation = given
    return checked


def augmented(augment: Augmentation, batch: Inputs, rng: np.random.Generator) -> Any:
    """The augmented batch, of the same type and shape."""
    expected = describe(batch)
    try:
        found = augment(batch, rng)
    except InputError:
        raise
    except Exception as error:  # whatever a user's function may raise
        place = "{0.filename}, line {0.lineno}".format(traceback.extract_tb(error.__traceback__)[-1])
        raise RunError(f"the augmentation failed: {type(error).__name__}: {printable(error)} (in {place})") from error
    if describe(found) != expected:
        raise RunError(f"the augmentation must return a batch like the one it gets, {expected}, got {describe(found)}.")
    return found


@contextmanager
def global_generators(seeds: Sequence[int]) -> Iterator[None]:
    """Seed the generators of random, NumPy and torch's CPU inside, and put them back afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            seed_generators(seeds)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def seed_generators(seeds: Sequence[int]) -> None:
    """Seed the generators that a transform may draw from: three whole numbers below 2^32."""
    random.seed(seeds[0])
    np.random.seed(seeds[1])
    torch.default_generator.manual_seed(seeds[2])


def _images(batch: Any) -> Tensor:
    if not isinstance(batch, Tensor) or batch.ndim != 4:
        raise InputError(f"crop, flip and cutout need images (N, channels, height, width), got {describe(batch)}.")
    return batch
