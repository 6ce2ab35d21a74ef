"""NumPy archives (.npz): x_train, y_train and perhaps x_test, y_test and class_names."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradlex._files import check_file
from gradlex.data.inputs import checked_inputs, checked_targets, printable
from gradlex.data.loaded import Loaded, check_memory
from gradlex.data.samples import ArraySamples
from gradlex.errors import InputError

Array: TypeAlias = npt.NDArray[Any]

_CHANNELS = (1, 3, 4)


def load_archive(path: Path, task: str | None = None) -> Loaded:
    """The archive's samples: images in any of the usual layouts, or (N, features).

    Targets are labels unless they are fractions, several a sample, or another task than classification is named.
    """
    shown, found = printable(path), read_archive(path)
    parts = ["train", *(["test"] if {"x_test", "y_test"} & found.keys() else [])]
    lacks = {f"{axis}_{part}" for part in parts for axis in "xy"} - found.keys()
    if lacks:
        raise InputError(
            f"{shown} has no {min(lacks)!r}; it holds {printable(', '.join(sorted(found))) or 'nothing'}. Name its "
            "arrays x_train and y_train, and those of a test part x_test and y_test."
        )
    targets = {part: found.pop(f"y_{part}") for part in parts}
    targets = {part: y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y for part, y in targets.items()}
    names = tuple(_text(found.pop("class_names"))) if "class_names" in found else None
    labeled = task in (None, "classification") and all(_are_labels(y) for y in targets.values())
    if labeled:
        targets, names = _class_numbers(targets, names, shown)
    elif task == "classification":
        raise InputError(f"{shown}: targets must be a class number or name for each sample.")
    samples = {}
    for part in parts:
        # Each array leaves `found` as it is taken, so that a changed copy doesn't lie beside its original.
        x = images_or_features(found.pop(f"x_{part}"), f"{shown}: x_{part}")
        y = checked_targets(targets[part], f"{shown}: y_{part}")
        if len(x) != len(y) or len(x) == 0:
            raise InputError(f"{shown}: the {part} part has {len(x)} samples and {len(y)} targets: give as many.")
        samples[part] = ArraySamples(x, y)
    kinds = [f"{each.stored.dtype} of shape {tuple(each.stored.shape[1:])}" for each in samples.values()]
    if len(set(kinds)) > 1:
        raise InputError(f"{shown}: training samples are {kinds[0]}, test samples {kinds[1]}: give both alike.")
    return Loaded(
        train=samples["train"],
        test=samples.get("test"),
        labeled=labeled,
        class_names=names if labeled else None,
        notes=(f"{shown}: {printable(', '.join(sorted(found)))} is not used.",) if found else (),
    )


def read_archive(path: Path) -> dict[str, Array]:
    """All arrays of an archive, without pickles."""
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(each.file_size for each in archive.infolist())
        check_memory(size, printable(path))
        with np.load(path, allow_pickle=False) as arrays:
            return {key: np.asarray(arrays[key]) for key in arrays.files}
    except InputError:
        raise
    except Exception as error:  # a damaged archive makes zipfile, zlib and NumPy raise many kinds
        # NumPy's advice to allow pickles would run whatever the file says.
        why = "it holds Python objects" if "pickle" in str(error) else f"{printable(error):.200}"
        raise InputError(
            f"{printable(path)} is not a sound .npz archive of numbers and text ({why}): write it with numpy.savez."
        ) from error


def images_or_features(x: Array, what: str) -> Tensor:
    """Images as (N, channels, height, width), features as they are; whole numbers from 0 to 255 as bytes."""
    if x.dtype.kind not in "iuf" or x.ndim not in (2, 3, 4):
        raise InputError(
            f"{what} must hold numbers, images (3 or 4 axes) or features (2 axes), got {x.dtype} of shape {x.shape}."
        )
    if x.ndim == 4:
        first, last = x.shape[1] in _CHANNELS, x.shape[3] in _CHANNELS
        if first == last:
            raise InputError(
                f"{what} has the shape {x.shape}: {'both' if first else 'neither'} of axis 1 and axis 3 could be 1, 3 "
                "or 4 channels. Store gray images as N x height x width."
            )
        x = x if first else x.transpose(0, 3, 1, 2)
    elif x.ndim == 3:
        x = x[:, None]
    if x.ndim == 4 and x.dtype.kind in "iu" and x.size and x.min() >= 0 and x.max() <= 255:
        x = x.astype(np.uint8, copy=False)
    elif x.dtype != np.uint8:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which is an error
            x = x.astype(np.float32, copy=False)
    checked: Tensor = checked_inputs(torch.from_numpy(x), what)
    return checked


def _are_labels(y: Array) -> bool:
    return y.ndim == 1 and (y.dtype.kind in "bUS" or (y.dtype.kind in "iuf" and bool((y == np.round(y)).all())))


def _class_numbers(
    targets: dict[str, Array], names: tuple[str, ...] | None, shown: str
) -> tuple[dict[str, Array], tuple[str, ...] | None]:
    """Labels as class numbers from 0 without gaps, and the classes' names."""
    named = targets["train"].dtype.kind in "US"
    labels = {part: _text(y) if y.dtype.kind in "US" else y.astype(np.int64).tolist() for part, y in targets.items()}
    present = sorted(set(labels["train"]), key=lambda label: (str(type(label)), label))
    if len(present) < 2 or not (named or present == list(range(len(present)))):
        raise InputError(
            f"{shown}: number the classes from 0 without gaps, at least two; the training labels are "
            f"{printable(', '.join(map(str, present[:8])))}."
        )
    unknown = [label for label in labels.get("test", []) if label not in set(present)]
    if unknown:
        raise InputError(
            f"{shown}: the test part has the class {unknown[0]!r:.80}, which the training part doesn't have: it has "
            f"{printable(', '.join(map(str, present[:8])))}. Remove those samples, or add some to the training part."
        )
    if names is not None and (len(names) != len(present) or (named and list(names) != present)):
        raise InputError(f"{shown}: the class names don't fit the {len(present)} classes: name each once, in order.")
    places = {label: place for place, label in enumerate(present)}
    numbers = {part: np.array([places[label] for label in own], dtype=np.int64) for part, own in labels.items()}
    return numbers, tuple(present) if named else names


def _text(given: Array) -> list[str]:
    decoded: Array = np.char.decode(given, "utf-8", "replace") if given.dtype.kind == "S" else given.astype(str)
    return [str(each) for each in decoded.ravel()]
