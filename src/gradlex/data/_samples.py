"""Samples: what the engine draws batches from, and how they are made from what a user has.

Clean by default; augmented only when a stream is given.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from gradlex.data._array_samples import ArraySamples
from gradlex.data._arrays import escaped
from gradlex.data._augment import Augmentation, as_augmentation
from gradlex.data._dataset_samples import Collate, DatasetSamples
from gradlex.data._inputs import Inputs, as_inputs, checked_inputs, checked_targets, leaves, named_leaves
from gradlex.data._normalization import Normalization
from gradlex.errors import InputError

Data: TypeAlias = "tuple[Any, Any] | list[Any] | Dataset[Any] | DataLoader[Any]"
"""(x, y) as tensors or arrays, where x may be a structure of them; a map-style Dataset of (input, target); or a
DataLoader over one, which is taken for its dataset and its collate_fn: batch size, order and workers are the recipe's
business."""

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


class Samples(Protocol):
    """Numbered samples with targets, given out in batches on the training device.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import ArraySamples, Samples, flip
        >>> samples: Samples = ArraySamples(torch.arange(6.0).reshape(2, 1, 1, 3), torch.tensor([0, 1]), augment=flip())
        >>> samples.clean(np.array([1]))[0]  # what selection sees
        tensor([[[[3., 4., 5.]]]])
        >>> samples.augmented(np.array([1]), np.random.default_rng(2))[0]  # what training may see
        tensor([[[[5., 4., 3.]]]])
    """

    def __len__(self) -> int: ...

    @property
    def channels_last(self) -> bool:
        """Whether images, and a network's weights with them, lie channels-last, which convolutions are fastest in."""
        ...

    @property
    def targets(self) -> Tensor | None:
        """All targets where they lie in memory; None for a Dataset."""
        ...

    def clean(self, indices: npt.NDArray[np.intp]) -> tuple[Inputs, Tensor]:
        """Inputs and targets as they are: what selection and evaluation see."""
        ...

    def augmented(self, indices: npt.NDArray[np.intp], rng: np.random.Generator) -> tuple[Inputs, Tensor]:
        """Inputs and targets for one gradient step."""
        ...

    def clean_batches(self, batches: Sequence[npt.NDArray[np.intp]]) -> Iterator[tuple[Any, Tensor]]:
        """`clean` of several batches in order, perhaps read ahead."""
        ...

    def augmented_batches(
        self, batches: Sequence[npt.NDArray[np.intp]], rngs: Sequence[np.random.Generator]
    ) -> Iterator[tuple[Any, Tensor]]:
        """`augmented` of several batches in order, each with its stream, perhaps read ahead."""
        ...

    def to(self, device: torch.device) -> Samples:
        """The same samples, given out on this device."""
        ...

    def contiguous(self) -> Samples:
        """The same samples for a network that takes images only as torch makes them (`view`)."""
        ...

    def with_augment(self, augment: Augmentation | None) -> Samples:
        """The same samples with another augmentation of whole batches."""
        ...

    def with_check(self, check: Callable[[Inputs, Tensor], None]) -> Samples:
        """The same samples with a check of every batch, on the host, where they cannot be checked whole before."""
        ...


def make_samples(
    data: Data,
    *,
    clean: Data | None = None,
    augment: Augmentation | None = None,
    normalization: Normalization | Literal["own"] | None = "own",
    learns_from: Callable[[int], npt.NDArray[np.intp]] | None = None,
    loader_workers: int = 0,
) -> tuple[Samples, Normalization | None]:
    """Samples from (x, y), a Dataset or a DataLoader, and what they are normalized by where they are bytes.

    Args:
        data: Arrays are checked whole; a Dataset's samples when they are drawn.
        clean: The same samples as a Dataset without random transforms, for selection.
        augment: A function (batch, rng) -> batch, for training only.
        normalization: For test samples, what the training samples are normalized by, None if by nothing.
            By default bytes are normalized by their own statistics.
        learns_from: Which of so many samples those statistics are taken from (default: all).
        loader_workers: Processes that read a Dataset's batches ahead.

    Raises:
        InputError: What was given cannot be drawn from, or differs from the training samples in being bytes.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import make_samples
        >>> images = torch.randint(256, (10, 3, 8, 8), dtype=torch.uint8)
        >>> samples, normalization = make_samples((images, torch.arange(10) % 2))
        >>> x, y = samples.clean(np.array([0, 3]))
        >>> x.dtype, y  # bytes are normalized
        (torch.float32, tensor([0, 1]))
    """
    if augment is not None:
        augment = as_augmentation(augment)
    if isinstance(data, tuple | list):
        if clean is not None:
            raise InputError("a clean view belongs to a Dataset with transforms; arrays are clean already.")
        if loader_workers:
            raise InputError(
                f"loader_workers read a Dataset; arrays lie in memory already, got {loader_workers}: leave it out."
            )
        return _from_arrays(data, augment, normalization, learns_from)
    dataset, collate = _dataset(data)
    if isinstance(clean, tuple | list):
        raise InputError("the clean view of a Dataset must be a Dataset of the same samples, got arrays.")
    clean_view, clean_collate = (None, None) if clean is None else _dataset(clean)
    _check_alike(normalization, bytes_given=False, what=f"a {type(data).__name__}")
    samples = DatasetSamples(
        dataset,
        clean_view=clean_view,
        collate=collate or default_collate,
        clean_collate=clean_collate,
        augment=augment,
        loader_workers=loader_workers,
    )
    _warn_of_randomness(
        samples, type(dataset).__name__, type(dataset if clean is None else clean_view).__name__
    )
    return samples, None


def fingerprint(*parts: Data | None) -> str | None:
    """A SHA-256 over the types, shapes and bytes of arrays; None where a Dataset is among them."""
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
        elif isinstance(part, tuple | list):
            for given in part:
                inputs = as_inputs(given, "data")
                for name, tensor in named_leaves(inputs, ""):
                    own = tensor.cpu().contiguous()
                    digest.update(f"{name}{own.dtype}{tuple(own.shape)}".encode())
                    digest.update(own.flatten().view(torch.uint8).numpy().data)
        else:
            return None
    return digest.hexdigest()


def _from_arrays(
    data: Any,
    augment: Augmentation | None,
    normalization: Normalization | Literal["own"] | None,
    learns_from: Callable[[int], npt.NDArray[np.intp]] | None,
) -> tuple[ArraySamples, Normalization | None]:
    if len(data) != 2:
        raise InputError(
            f"data given as arrays must be the pair (x, y), got {len(data)} of them: several inputs go into one "
            "tuple, ((x1, x2), y), and a list of samples into a Dataset."
        )
    x, y = checked_inputs(data[0]), checked_targets(data[1])
    samples = len(leaves(x)[0])
    if samples != len(y):
        stack = ": stack its samples into one tensor" if isinstance(x, list) and len(x) == len(y) else ""
        raise InputError(f"the data has {samples} samples but {len(y)} targets{stack}.")
    if samples == 0:
        raise InputError("the data holds no samples: the set is empty.")
    in_bytes = isinstance(x, Tensor) and x.dtype == torch.uint8
    _check_alike(
        normalization,
        bytes_given=in_bytes,
        what=f"{x.dtype} arrays" if isinstance(x, Tensor) else f"a {type(x).__name__} of arrays",
    )
    if not in_bytes:
        return ArraySamples(x, y, augment=augment), None
    if not isinstance(normalization, Normalization):
        if x.ndim not in (2, 4):
            raise InputError(
                f"bytes must be (N, channels, height, width) or (N, features), got {tuple(x.shape)}."
            )
        own = np.moveaxis(x.cpu().numpy(), 1, -1)
        normalization = Normalization.of(own if learns_from is None else own[learns_from(samples)])
    return ArraySamples(x, y, normalization=normalization, augment=augment), normalization


def _dataset(data: Any) -> tuple[Dataset[Any], Collate | None]:
    """A map-style Dataset and, from a DataLoader, its collate function."""
    collate = None
    if isinstance(data, DataLoader):
        if data.batch_size is None and data.batch_sampler is None:
            raise InputError("a DataLoader with batch_size=None does not collate samples: give its dataset.")
        data, collate = data.dataset, data.collate_fn
    if isinstance(data, Tensor | np.ndarray | dict | str | bytes) or data is None:
        raise InputError(
            f"data must be the pair (x, y), a map-style Dataset or a DataLoader, got {type(data).__name__}."
        )
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise InputError(
            "an iterable dataset has no numbered samples, so it cannot be split into disjoint subsets or "
            f"indexed by case: give (x, y) or a map-style Dataset, got {type(data).__name__}."
        )
    if len(data) == 0:
        raise InputError(f"the dataset {type(data).__name__} is empty.")
    return data, collate


def _check_alike(
    normalization: Normalization | Literal["own"] | None, *, bytes_given: bool, what: str
) -> None:
    """Arrays of bytes are normalized and nothing else is, so training and test samples must be alike in it."""
    if normalization != "own" and bytes_given != isinstance(normalization, Normalization):
        trained = "not" if bytes_given else "torch.uint8 arrays"
        raise InputError(
            f"the test samples are {what}, the training samples are {trained}: arrays of torch.uint8 are "
            "normalized and other samples are not, so give both alike."
        )


def _warn_of_randomness(samples: DatasetSamples, training: str, clean: str) -> None:
    try:
        clean_varies, repeats = samples.clean_varies, samples.repeats
    except InputError:
        raise
    except Exception as error:  # whatever a user's Dataset may raise
        raise InputError(
            f"the first samples of {training} cannot be read: {type(error).__name__}: {escaped(error)}"
        ) from error
    if clean_varies:
        _warn(
            f"{clean} transforms its samples at random, so selection and evaluation would see augmented ones: give "
            "the same samples without random transforms as clean=..."
        )
    if not repeats:
        _warn(
            f"{training} draws from a random generator of its own, so the run cannot be repeated or resumed exactly: "
            "draw from random, numpy.random or torch, which are seeded for every batch."
        )


def _warn(message: str) -> None:
    """A warning that points at the line outside gradlex that passed the data in."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
