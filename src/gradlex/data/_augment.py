"""Augmentation of whole batches with an explicit stream: a function of (batch, stream), nothing else.

It is applied inside SubGD only, so selection cannot see an augmented case. These are small classes rather than
closures so that workers in other processes can be given them. One that mixes samples changes targets too: it has a
method `with_targets(batch, targets, rng)`. Random transforms of torchvision.transforms.v2 are taken as they are.
"""

from __future__ import annotations

import inspect
import math
import random
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from numbers import Integral
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor

from gradlex._checks import check
from gradlex._objects import load_object
from gradlex.data._arrays import escaped
from gradlex.data._inputs import Inputs, describe, leaves, map_inputs
from gradlex.data._transfer import sent
from gradlex.errors import InputError, RunError
from gradlex.randomness import callers_generators

Augmentation: TypeAlias = Callable[[Any, np.random.Generator], Any]
"""A batch as the data has it, (N, channels, height, width) for images, and a stream -> a batch of the same shape."""

Numbers: TypeAlias = npt.NDArray[np.int64]
"""What an augmentation has drawn for a batch: (numbers, N)."""

_MOST_PADDING = 256  # a padded batch lies in memory as a whole


class _Drawn(ABC):
    """An augmentation that says beforehand what it draws, so that it can travel to the device with other numbers."""

    images: ClassVar[bool] = True
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


class Mixed(NamedTuple):
    """The targets of samples that were mixed in pairs: `share` of the first and the rest of the second.

    The loss of such a batch is `share` x the loss for `first` + (1 - share) x the loss for `second`, which for
    cross-entropy is that of mixed class probabilities (Zhang et al. 2018, section 2): it needs to know of no classes.

    Examples:
        >>> import torch
        >>> from gradlex.data import Mixed
        >>> targets = Mixed(torch.tensor([0]), torch.tensor([1]), torch.tensor([0.75]))
        >>> outputs = torch.tensor([[2.0, 0.0]])
        >>> targets.loss(torch.nn.functional.cross_entropy, outputs)
        tensor(0.6269)
    """

    first: Any
    second: Any
    share: Tensor
    """(N,), the same for the whole batch."""

    def loss(self, loss: Callable[[Any, Any], Tensor], outputs: Any) -> Tensor:
        """The mixed loss."""
        share = self.share[0]
        return share * loss(outputs, self.first) + (1 - share) * loss(outputs, self.second)


@dataclass(frozen=True)
class _MixUp:
    alpha: float

    def with_targets(self, batch: Any, targets: Any, rng: np.random.Generator) -> tuple[Any, Mixed]:
        size = len(leaves(batch)[0])
        share, partners = rng.beta(self.alpha, self.alpha), torch.from_numpy(rng.permutation(size))

        def mix(leaf: Tensor) -> Tensor:
            if not leaf.is_floating_point() and leaf.dtype != torch.uint8:
                raise InputError(f"mixup needs inputs of floats or bytes, got {leaf.dtype}.")
            own = leaf.float() if leaf.dtype == torch.uint8 else leaf
            mixed = torch.lerp(own[partners.to(leaf.device)], own, share)
            return mixed.round_().to(torch.uint8) if leaf.dtype == torch.uint8 else mixed

        return map_inputs(mix, batch), _mixed(targets, partners, share)


@dataclass(frozen=True)
class _CutMix:
    alpha: float
    images: ClassVar[bool] = True

    def with_targets(self, batch: Any, targets: Any, rng: np.random.Generator) -> tuple[Tensor, Mixed]:
        size, _, height, width = _checked_images(batch).shape
        share, partners = rng.beta(self.alpha, self.alpha), torch.from_numpy(rng.permutation(size))
        # A box of this part of the area around any centre; what lies outside is cut off (Yun et al. 2019).
        tall, wide = (round(extent * math.sqrt(1 - share)) for extent in (height, width))
        down, right = (int(rng.integers(extent)) for extent in (height, width))
        top, left = max(down - tall // 2, 0), max(right - wide // 2, 0)
        bottom, end = min(down - tall // 2 + tall, height), min(right - wide // 2 + wide, width)
        cut = batch.clone()
        cut[:, :, top:bottom, left:end] = batch[partners.to(batch.device)][:, :, top:bottom, left:end]
        area = max(bottom - top, 0) * max(end - left, 0)
        return cut, _mixed(targets, partners, 1 - area / (height * width))


@dataclass(frozen=True)
class _OneOf:
    """One of them for each batch, by chance."""

    steps: tuple[Any, ...]

    @property
    def images(self) -> bool:
        return any(needs_images(step) for step in self.steps)

    def with_targets(self, batch: Any, targets: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        return _applied(self.steps[int(rng.integers(len(self.steps)))], batch, targets, rng)


@dataclass(frozen=True)
class _Transform:
    """A transform of torchvision.transforms.v2, which draws from torch's global generator: image by image."""

    transform: Any

    def __call__(self, batch: Tensor, rng: np.random.Generator) -> Tensor:
        with global_generators(rng.integers(0, 2**32, 3).tolist()):
            images = torch.stack([self.transform(image) for image in batch])
        last = isinstance(batch, Tensor) and batch.ndim == 4 and not batch.is_contiguous()
        return images.contiguous(memory_format=torch.channels_last) if last else images


@dataclass(frozen=True)
class _BatchTransform:
    """A transform of torchvision.transforms.v2 that mixes the samples of a batch, and their labels."""

    transform: Any

    def with_targets(self, batch: Any, targets: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        with global_generators(rng.integers(0, 2**32, 3).tolist()):
            images, labels = self.transform(batch, targets)
        return images, labels


@dataclass(frozen=True)
class _Chain:
    steps: tuple[Any, ...]

    @property
    def images(self) -> bool:
        return any(needs_images(step) for step in self.steps)

    @property
    def mixes(self) -> bool:
        return any(mixes_targets(step) for step in self.steps)

    def __call__(self, batch: Any, rng: np.random.Generator) -> Any:
        if self.mixes:
            raise InputError("mixup and cutmix change targets too: give them as augment, alone or in a list.")
        return self.with_targets(batch, None, rng)[0]

    def with_targets(self, batch: Any, targets: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        for step in self.steps:
            batch, targets = _applied(step, batch, targets, rng)
        return batch, targets


def mixes_targets(augment: Any) -> bool:
    """Whether an augmentation changes targets, so that what it makes is no case of its own."""
    return bool(getattr(augment, "mixes", hasattr(augment, "with_targets")))


def is_own(augment: Any) -> bool:
    """Whether an augmentation has a part that is not of gradlex, which may raise anything."""
    return any(type(step).__module__ != __name__ for step in _steps(augment))


def needs_images(augment: Any) -> bool:
    """Whether an augmentation is for images (N, channels, height, width) only; one of the user's knows itself."""
    return bool(getattr(augment, "images", False))


def _applied(step: Any, batch: Any, targets: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    if hasattr(step, "with_targets"):
        found: tuple[Any, Any] = step.with_targets(batch, targets, rng)
        return found
    return step(batch, rng), targets


def _mixed(targets: Any, partners: Tensor, share: float) -> Mixed:
    others = map_inputs(lambda leaf: leaf[partners.to(leaf.device)], targets)
    return Mixed(targets, others, torch.full((len(partners),), share, device=leaves(targets)[0].device))


@contextmanager
def global_generators(seeds: Sequence[int]) -> Iterator[None]:
    """Seed the generators of random, NumPy and torch's CPU inside; an accelerator's own belongs to dropout."""
    with callers_generators(), torch.random.fork_rng(devices=[]):
        seed_generators(seeds)
        yield


def seed_generators(seeds: Sequence[int]) -> None:
    """Seed the generators that a transform may draw from: three whole numbers below 2^32."""
    random.seed(seeds[0])
    np.random.seed(seeds[1])
    torch.default_generator.manual_seed(seeds[2])


def crop(padding: int) -> Augmentation:
    """Pad each image with `padding` zeros on every side and cut a random window of its own size.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import crop
        >>> images = torch.ones(2, 3, 8, 8)
        >>> moved = crop(2)(images, np.random.default_rng(0))
        >>> moved.shape, bool((moved == 0).any())  # the border that moved in is black
        (torch.Size([2, 3, 8, 8]), True)
    """
    if not isinstance(padding, Integral) or not 1 <= padding <= _MOST_PADDING:
        raise InputError(f"a random crop needs a whole padding from 1 to {_MOST_PADDING}, got {padding!r}.")
    return _Crop(int(padding))


def flip() -> Augmentation:
    """Mirror each image from left to right with a chance of one half.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import flip
        >>> images = torch.tensor([1.0, 2.0, 3.0]).expand(4, 1, 1, 3)
        >>> flip()(images, np.random.default_rng(0))[:, 0, 0].tolist()
        [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]
    """
    return _Flip()


def cutout(size: int) -> Augmentation:
    """Blacken a square of `size` pixels at a random place of each image (DeVries & Taylor 2017).

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import cutout
        >>> images = cutout(4)(torch.ones(5, 1, 16, 16), np.random.default_rng(0))
        >>> int((images == 0).sum(dim=(1, 2, 3)).max())  # at most 4 x 4 pixels are black: less at the border
        16
    """
    if not isinstance(size, Integral) or not 1 <= size <= _MOST_PADDING:
        raise InputError(f"a cutout needs a whole size from 1 to {_MOST_PADDING}, got {size!r}.")
    return _Cutout(int(size))


def mixup(alpha: float = 0.2) -> Augmentation:
    """Mix each sample, and its loss, with another of its batch, by a share drawn from Beta(alpha, alpha).

    Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import ArraySamples, mixup
        >>> samples = ArraySamples(torch.eye(4), torch.arange(4), augment=mixup(1.0))
        >>> inputs, targets = samples.augmented(np.arange(4), np.random.default_rng(0))
        >>> torch.allclose(inputs.sum(dim=1), torch.ones(4))  # each row is a mean of two
        True
        >>> targets.first  # and so is its loss: share x that of first + (1 - share) x that of second
        tensor([0, 1, 2, 3])
    """
    return _Chain((_MixUp(_alpha("mixup", alpha)),))


def cutmix(alpha: float = 1.0) -> Augmentation:
    """Put a box of another image of the batch into each, and mix the losses by its area.

    Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features", ICCV 2019.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import ArraySamples, cutmix
        >>> images = torch.stack([torch.full((1, 8, 8), float(number)) for number in range(4)])
        >>> samples = ArraySamples(images, torch.arange(4), augment=cutmix())
        >>> inputs, targets = samples.augmented(np.arange(4), np.random.default_rng(0))
        >>> own = (inputs == images).float().mean(dim=(1, 2, 3))  # how much of each image is its own
        >>> torch.allclose(own[targets.first != targets.second], targets.share[targets.first != targets.second])
        True
    """
    return _Chain((_CutMix(_alpha("cutmix", alpha)),))


def _alpha(name: str, alpha: float) -> float:
    check(f"the alpha of {name}", Annotated[float, Gt(0)], alpha)
    return float(alpha)


def crop_flip(padding: int) -> Augmentation:
    """The paper's augmentation: a random crop, then a random horizontal flip.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> from gradlex.data import crop_flip
        >>> images, labels = torch.rand(24, 3, 8, 8), torch.arange(24) % 2
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
        >>> recipe = gradlex.Recipe(generations=1, batch_size=8)
        >>> run = gradlex.train(net, (images, labels), recipe, augment=crop_flip(2))
        >>> run.recipe.augment  # an object, which recipe.json cannot hold
        'given'
    """
    return _Chain((crop(padding), flip()))


_WORD = re.compile(
    r"(?P<whole>crop|cutout)(?P<size>[1-9]\d{0,8})|flip|(?P<mix>mixup|cutmix)(?P<alpha>\d*\.?\d+)?"
)


def parse_augment(text: str) -> Augmentation | None:
    """The augmentation that `--augment` names: none, or some of cropN, flip, cutoutN, mixupA, cutmixA and module:name.

    They are applied in order, mixing last; where both mixup and cutmix are named, each batch gets one of them.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import parse_augment
        >>> augment = parse_augment("crop4,flip")
        >>> augment(torch.rand(2, 3, 32, 32), np.random.default_rng(0)).shape
        torch.Size([2, 3, 32, 32])
        >>> parse_augment("none") is None
        True
    """
    if text == "none":
        return None
    steps: list[Any] = []
    mixing: list[Any] = []
    for word in map(str.strip, text.split(",")):
        found = _WORD.fullmatch(word)
        if found and found["mix"]:
            make = {"mixup": mixup, "cutmix": cutmix}[found["mix"]]
            mixing.append(make(float(found["alpha"])) if found["alpha"] else make())
        elif found:
            sized = {"crop": crop, "cutout": cutout}.get(found["whole"] or "")
            steps.append(sized(int(found["size"])) if sized else flip())
        elif ":" in word:
            steps.append(as_augmentation(load_object(word, "augmentation")))
        else:
            raise InputError(
                f"unknown augmentation {word!r} in {text!r}. Allowed: none, or crop4 (any padding up to "
                f"{_MOST_PADDING}), flip, cutout8, mixup0.2, cutmix1 and functions of your own as module:name, joined "
                "by commas."
            )
    if mixing:
        steps.append(mixing[0] if len(mixing) == 1 else _OneOf(tuple(mixing)))
    return _Chain(tuple(steps))


def as_augmentation(given: Any) -> Any:
    """What was given as an augmentation: a function, a transform of torchvision.transforms.v2, or a list of them.

    A transform is applied image by image, as a Dataset would; MixUp and CutMix to a batch and its labels.
    """
    if isinstance(given, list | tuple):
        return _Chain(tuple(step for each in given for step in _steps(as_augmentation(each))))
    v2 = sys.modules.get("torchvision.transforms.v2")  # who gives a transform has imported it
    if v2 is None or not isinstance(given, v2.Transform):
        check_augment(given)
        return given
    if isinstance(given, v2.Compose):
        return as_augmentation(list(given.transforms))
    return _BatchTransform(given) if _mixes_labels(given, v2) else _Transform(given)


def _mixes_labels(transform: Any, v2: Any) -> bool:
    """Whether it is MixUp or CutMix, or chooses among transforms of which one is."""
    inner = getattr(transform, "transforms", ())
    return isinstance(transform, v2.MixUp | v2.CutMix) or any(_mixes_labels(each, v2) for each in inner)


def check_augment(augment: Any) -> None:
    """Refuse what cannot be called with a batch and a stream."""
    if not callable(augment):
        raise InputError(
            "augment must be a function (batch, rng) -> batch, a transform of torchvision.transforms.v2 or a list of "
            f"them, got {type(augment).__name__}."
        )
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
    augment: Augmentation,
    batch: Inputs,
    targets: Any,
    rng: np.random.Generator,
    drawn: Tensor | None = None,
) -> tuple[Any, Any]:
    """The augmented batch and its targets; another type would be normalised wrongly, another shape not at all.

    `drawn` is what `draw` has drawn, on the batch's device. A failure is a RunError that names the augmentation, so
    that nobody blames the model for it.
    """
    expected = _kind(batch)
    try:
        augmented, targets = _all_applied(augment, batch, targets, rng, drawn)
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
    return augmented, targets


def _steps(augment: Augmentation | None) -> tuple[Augmentation, ...]:
    return augment.steps if isinstance(augment, _Chain) else () if augment is None else (augment,)


def _drawing(augment: Augmentation | None) -> list[_Drawn]:
    """The steps before the first function of the user's."""
    return list(takewhile(lambda step: isinstance(step, _Drawn), _steps(augment)))  # type: ignore[arg-type]


def _all_applied(
    augment: Augmentation, batch: Any, targets: Any, rng: np.random.Generator, drawn: Tensor | None
) -> tuple[Any, Any]:
    first, own = _drawing(augment) if drawn is not None else [], 0
    for step in first:
        batch = step.apply(batch, drawn[own : own + step.numbers])  # type: ignore[index]  # there, as it has steps
        own += step.numbers
    for other in _steps(augment)[len(first) :]:
        batch, targets = _applied(other, batch, targets, rng)
    return batch, targets


def _name(augment: Any) -> str:
    if isinstance(augment, _Chain):  # what may fail is what is not of gradlex
        own = [step for step in augment.steps if not isinstance(step, _Drawn)] or augment.steps
        return ", ".join(_name(step) for step in own)
    return str(getattr(augment, "__qualname__", type(augment).__name__))


def _kind(batch: Any) -> Any:
    """What an augmented batch must have in common with the batch it was made from."""
    return (batch.dtype, batch.shape) if isinstance(batch, Tensor) else describe(batch)


def _checked_images(batch: Any) -> Tensor:
    if not isinstance(batch, Tensor) or batch.ndim != 4:
        found = tuple(batch.shape) if isinstance(batch, Tensor) else describe(batch)
        raise InputError(
            f"crop, flip, cutout and cutmix need images (N, channels, height, width), got {found}."
        )
    return batch
