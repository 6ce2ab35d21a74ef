"""Arrays: a dataset's four arrays in one form, checked, with their fingerprint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gradlex.errors import InputError

if TYPE_CHECKING:
    from gradlex.data._table import TableEncoding

PART_SEED = 20220125  # one part for all seeds and methods: `train_size` and `test_fraction` use no run's seed

CHANNELS = (1, 3, 4)
"""Sizes of an axis that is taken for the channels of images."""


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """Training and test samples: x is (N, height, width, channels) images or (N, features); y is labels or numbers.

    Examples:
        >>> import gradlex
        >>> arrays = gradlex.data.load(gradlex.Recipe(dataset="digits"))
        >>> arrays.num_classes, arrays.input_shape  # as a network sees a sample: channels first
        (10, (1, 8, 8))
    """

    x_train: npt.NDArray[Any]
    y_train: npt.NDArray[Any]
    x_test: npt.NDArray[Any] | None
    y_test: npt.NDArray[Any] | None
    labelled: bool = True
    """Whether y holds a label for each sample, int64 from 0 without gaps; otherwise any numbers."""
    class_names: tuple[str, ...] | None = None
    test_fraction: float | None = None
    """The share of the samples that `with_test` cut off; None where the test part is the data's own."""
    groups_train: npt.NDArray[Any] | None = None
    groups_test: npt.NDArray[Any] | None = None
    """The group of each sample, by number or name: selection then looks at groups, and the worst one is reported."""
    encoding: TableEncoding | None = None
    """Of a table: how its columns became features."""
    notes: tuple[str, ...] = ()
    """What a user should know of how the data was read, a sentence each."""

    @property
    def num_classes(self) -> int:
        """Classes, counted in the training labels."""
        return int(self.y_train.max()) + 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample as a network sees it: (channels, height, width) or (features,)."""
        shape = self.x_train.shape[1:]
        return (shape[2], shape[0], shape[1]) if len(shape) == 3 else tuple(shape)

    def fingerprint(self) -> str:
        """A SHA-256 over the types, shapes and bytes of all arrays and labels."""
        groups = [each for each in (self.groups_train, self.groups_test) if each is not None]
        return _checksum(self.x_train, self.y_train, self.x_test, self.y_test, *groups)

    def test_fingerprint(self) -> str:
        """The same over the test part alone."""
        return _checksum(self.x_test, self.y_test)

    def part(self, train_size: int | None) -> Arrays:
        """The same data with a stratified random part of the training samples."""
        if train_size is None or train_size == len(self.y_train):
            return self
        if train_size > len(self.y_train):
            raise InputError(
                f"train_size {train_size} is more than the {len(self.y_train)} training samples: "
                "give fewer, or leave it out to train on all."
            )
        kept, _ = self._split(train_size, f"train_size {train_size}")
        groups = None if self.groups_train is None else self.groups_train[kept]
        return replace(self, x_train=self.x_train[kept], y_train=self.y_train[kept], groups_train=groups)

    def with_test(self, test_fraction: float | None) -> Arrays:
        """The same data with a test part: its own, or a stratified share of the training samples."""
        if self.x_test is not None:
            if test_fraction is not None:
                raise InputError(
                    f"this data has a test part of its own, got test_fraction {test_fraction}: leave it out."
                )
            return self
        fraction = 0.2 if test_fraction is None else test_fraction
        held_out = round(len(self.y_train) * fraction)
        if held_out == 0:
            raise InputError(
                f"test_fraction {fraction:g} of {len(self.y_train)} samples leaves none for testing: give more."
            )
        kept, held = self._split(len(self.y_train) - held_out, f"test_fraction {fraction:g}")
        groups = self.groups_train
        return replace(
            self,
            groups_train=None if groups is None else groups[kept],
            groups_test=None if groups is None else groups[held],
            x_train=self.x_train[kept],
            y_train=self.y_train[kept],
            x_test=self.x_train[held],
            y_test=self.y_train[held],
            test_fraction=fraction,
        )

    def _split(self, size: int, asked: str) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Indices of a random part of `size` training samples, by class where there are any, and of the rest."""
        if self.labelled:
            return stratified(self.y_train, size, asked)
        if size < 2:
            raise InputError(f"{asked} leaves {size} of {len(self.y_train)} samples for training.")
        order = np.random.default_rng(PART_SEED).permutation(len(self.y_train))
        return np.sort(order[:size]), np.sort(order[size:])


def stratified(
    labels: npt.NDArray[np.int64], size: int, asked: str
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Indices of a stratified random part of `size` samples, and those of the rest, each in order.

    Every class gives its share by largest remainders, and a rare one at least one sample, so that no class is lost.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if size < len(classes):
        raise InputError(
            f"{asked} leaves {size} of {len(labels)} samples for training, fewer than the {len(classes)} classes: "
            "each needs at least one."
        )
    share = counts * size / len(labels)
    quota = np.maximum(1, np.floor(share)).astype(np.intp)
    while quota.sum() < size:
        quota[np.argmax(share - quota)] += 1
    while quota.sum() > size:
        quota[np.argmin(np.where(quota > 1, share - quota, np.inf))] -= 1
    order = np.random.default_rng(PART_SEED).permutation(len(labels))
    grouped = order[np.argsort(labels[order], kind="stable")]
    members = np.split(grouped, np.cumsum(counts)[:-1])
    kept = np.concatenate([own[:taken] for own, taken in zip(members, quota, strict=True)])
    return np.sort(kept), np.setdiff1d(order, kept)


def escaped(text: object) -> str:
    """Text as it may be printed: control characters, which a terminal would obey, are written out as `\\x1b`.

    File names, class names and other libraries' messages may hold any.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text)
    )


def checked_arrays(arrays: Arrays, *, source: str) -> Arrays:
    """The arrays, or an InputError that names the source and what is wrong with it."""
    source = escaped(source)
    for part, x, y in (("training", arrays.x_train, arrays.y_train), ("test", arrays.x_test, arrays.y_test)):
        if x is None or y is None:
            continue
        if arrays.labelled:
            check_samples(len(x), y, what=f"{source}: {part}")
        elif len(x) != len(y) or len(y) == 0:
            raise InputError(
                f"{source}: {part}: {len(x)} samples but {len(y)} targets; there must be as many."
            )
        if x.size == 0:
            raise InputError(f"{source}: {part} samples contain no numbers: their shape is {x.shape[1:]}.")
        if np.issubdtype(x.dtype, np.floating) and not np.isfinite(x).all():
            where = int(np.argwhere(~np.isfinite(x))[0][0])
            raise InputError(f"{source}: {part}: sample {where} contains NaN or infinity: fix or remove it.")
        if x.shape[1:] != arrays.x_train.shape[1:]:
            raise InputError(
                f"{source}: test samples have the shape {x.shape[1:]}, training {arrays.x_train.shape[1:]}."
            )
    if arrays.labelled:
        _check_labels(arrays, source)
    elif arrays.y_test is not None and arrays.y_test.shape[1:] != arrays.y_train.shape[1:]:
        raise InputError(
            f"{source}: test targets have the shape {arrays.y_test.shape[1:]} for each sample, training targets "
            f"{arrays.y_train.shape[1:]}."
        )
    return arrays


def _check_labels(arrays: Arrays, source: str) -> None:
    """Refuse labels that do not number the classes from 0 without gaps, or names that do not fit them."""
    present = np.unique(arrays.y_train)
    if len(present) == 1:
        raise InputError(f"{source}: all training labels are {present[0]}; at least two classes are needed.")
    if len(present) != arrays.num_classes:
        missing = np.flatnonzero(present != np.arange(len(present)))[0]
        raise InputError(
            f"{source}: labels go from {present[0]} to {present[-1]} but none is {missing}: number the classes from 0, "
            "without gaps."
        )
    if arrays.y_test is not None and arrays.y_test.max() > present[-1]:
        raise InputError(
            f"{source}: a test label is {arrays.y_test.max()}, training labels go to {present[-1]}."
        )
    if arrays.class_names is not None and len(arrays.class_names) != arrays.num_classes:
        raise InputError(
            f"{source}: {len(arrays.class_names)} class names for {arrays.num_classes} classes: name each once."
        )


def check_samples(samples: int, labels: npt.NDArray[Any], *, what: str) -> None:
    """Refuse labels that are not whole numbers from 0, one for each of the samples; or an empty set."""
    if samples != len(labels):
        raise InputError(f"{what}: {samples} samples but {len(labels)} labels.")
    if samples == 0:
        raise InputError(f"{what}: the set is empty.")
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1:
        raise InputError(
            f"{what}: labels must be whole numbers, one per sample, got {labels.dtype} of shape {labels.shape}."
        )
    if labels.min() < 0:
        raise InputError(f"{what}: labels must be from 0 to classes - 1, got {labels.min()}.")


def _checksum(*arrays: npt.NDArray[Any] | None) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
