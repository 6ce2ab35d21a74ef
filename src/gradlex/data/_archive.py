"""NumPy archives (.npz): x_train, y_train and, where there is a test part, x_test, y_test; optionally
class_names, and groups_train, groups_test: the group of each sample."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gradlex.data._arrays import CHANNELS, Arrays, escaped
from gradlex.errors import InputError


def archive(path: Path, task: str | None = None) -> Arrays:
    """The archive's arrays: images in any of the usual layouts, or (N, features).

    Targets are labels unless they are fractions, several a sample, or another task than classification is named.
    """
    found, shown = _read(path), escaped(path)
    if ("x_test" in found) != ("y_test" in found):
        raise InputError(
            f"{shown} has only one of x_test and y_test: give both, or neither and test_fraction."
        )
    # Each array leaves `found` as it is taken, so that a changed copy does not lie beside its original.
    keys = [key for key in ("x_train", "x_test") if key in found]
    scaled = _scaled({key: _last(found.pop(key), f"{shown}: {key}") for key in keys}, shown)
    labels: dict[str, npt.NDArray[Any]] = {key: found[key] for key in ("y_train", "y_test") if key in found}
    names = None
    if "class_names" in found:
        names = tuple(_text(found["class_names"], f"{shown}: class_names", each="class").tolist())
    if _are_numbers(labels["y_train"], task):
        return Arrays(
            x_train=scaled["x_train"],
            y_train=_numbers(labels["y_train"], f"{shown}: y_train"),
            x_test=scaled.get("x_test"),
            y_test=_numbers(labels["y_test"], f"{shown}: y_test") if "y_test" in labels else None,
            labelled=False,
            groups_train=_groups(found, "train", labels, shown),
            groups_test=_groups(found, "test", labels, shown),
        )
    if any(y.dtype.kind in "US" for y in labels.values()):
        labels, names = _encoded(labels, names, shown)
    return Arrays(
        x_train=scaled["x_train"],
        y_train=_labels(labels["y_train"], f"{shown}: y_train"),
        x_test=scaled.get("x_test"),
        y_test=_labels(labels["y_test"], f"{shown}: y_test") if "y_test" in labels else None,
        class_names=names,
        groups_train=_groups(found, "train", labels, shown),
        groups_test=_groups(found, "test", labels, shown),
    )


def _groups(
    found: dict[str, npt.NDArray[Any]], part: str, labels: dict[str, npt.NDArray[Any]], shown: str
) -> npt.NDArray[Any] | None:
    """The group of each sample of a part, if the archive has them."""
    given, own = found.get(f"groups_{part}"), labels.get(f"y_{part}")
    if given is None or own is None or own.ndim == 0:
        return None
    if given.shape != (len(own),) or given.dtype.kind not in "biuUS":
        raise InputError(
            f"{shown}: groups_{part} must be a whole number or name for each of the {len(own)} samples, got "
            f"{given.dtype} of shape {given.shape}."
        )
    return np.char.decode(given, "utf-8", "replace") if given.dtype.kind == "S" else given


def read_inputs(path: Path) -> npt.NDArray[Any]:
    """The array `x` of an archive, or `x_test`, or its only one: images in any of the usual layouts, or features."""
    found = _opened(path, None)
    name: str | None = next((key for key in ("x", "x_test") if key in found), None)
    if name is None and len(found) == 1:
        (name,) = found
    if name is None:
        raise InputError(
            f"{escaped(path)} has no array x; it holds {escaped(', '.join(sorted(found))) or 'nothing'}. Name the "
            "inputs x."
        )
    what = f"{escaped(path)}: {name}"
    return _scaled({"x_train": _last(found[name], what)}, escaped(path))["x_train"]


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    shown, names = escaped(path), list[str]()
    wanted = ("x_train", "y_train", "x_test", "y_test", "class_names", "groups_train", "groups_test")
    found = _opened(path, wanted, names)
    for key in ("x_train", "y_train"):
        if key not in found:
            raise InputError(
                f"{shown} has no {key!r}; it holds {escaped(', '.join(sorted(names))) or 'nothing'}. Name its arrays "
                "x_train and y_train, and where it has a test part x_test and y_test."
            )
    return found


def _opened(
    path: Path, wanted: tuple[str, ...] | None, listed: list[str] | None = None
) -> dict[str, npt.NDArray[Any]]:
    """The wanted arrays of an archive, or all; the names of all are put into `listed`."""
    shown = escaped(path)
    if not os.path.isfile(path):
        raise InputError(f"there is no file {shown}.")
    if not zipfile.is_zipfile(path):
        raise InputError(
            f"{shown} is not a .npz archive, or only a part of one: write it with numpy.savez, or copy it again."
        )
    try:
        with open(
            path, "rb"
        ) as file:  # opened here, since NumPy leaves a file open where it finds no sound archive
            _check_directory(file)
            with np.load(file, allow_pickle=False) as archive:
                names = archive.files
                found = {key: archive[key] for key in names if wanted is None or key in wanted}
    except Exception as error:  # a damaged archive makes zipfile, zlib and NumPy raise many kinds
        told = escaped(error)  # which may quote much of the file
        raise InputError(
            f"{shown} is not a sound .npz archive of plain arrays: {told:.300}. Write it with numpy.savez."
        ) from error
    for key, array in found.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{shown}: {key} is not a NumPy array. Write it with numpy.savez.")
    if listed is not None:
        listed.extend(names)
    return found


def _check_directory(file: BinaryIO) -> None:
    """Refuse a directory that lists fewer arrays than were written: zipfile takes what it finds.

    Checksums cover the arrays alone, so an altered length in the directory could hide the test part.
    """
    with zipfile.ZipFile(file) as archive:
        listed = len(archive.infolist())
    file.seek(-22, os.SEEK_END)
    end = file.read()
    file.seek(0)
    written = int.from_bytes(end[10:12], "little")
    told_elsewhere = 0xFFFF  # in large archives
    if end.startswith(b"PK\5\6") and written not in (listed, told_elsewhere):
        raise InputError(f"its directory lists {listed} of {written} arrays")


def _are_numbers(y: npt.NDArray[Any], task: str | None) -> bool:
    """Whether targets are other than one label a sample."""
    if task is not None:
        return task != "classification"
    y = _column(y)
    if y.dtype.kind not in "iuf" or y.size == 0:
        return False
    return y.ndim > 1 or (y.dtype.kind == "f" and bool((np.isfinite(y) & (y != np.round(y))).any()))


def _numbers(y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    y = _column(y)
    if y.dtype.kind not in "biuf" or y.ndim == 0:
        raise InputError(f"{what} must hold numbers, got {y.dtype} of shape {y.shape}.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        at = int(np.argwhere(~np.isfinite(y))[0][0])
        raise InputError(f"{what} is NaN or infinite for sample {at}: fix it, or leave the sample out.")
    if y.dtype.kind == "u" and y.size and y.max() > np.iinfo(np.int64).max:
        raise InputError(
            f"{what} has the number {y.max()}, above the largest that is read: give smaller ones."
        )
    return y.astype(np.float64 if y.dtype.kind == "f" else np.int64)


def _labels(y: npt.NDArray[Any], what: str) -> npt.NDArray[np.int64]:
    y = _column(y)
    if y.dtype.kind not in "iuf" or y.ndim != 1:
        raise InputError(
            f"{what} must hold whole numbers or class names, one per sample, got {y.dtype} of shape {y.shape}."
        )
    with np.errstate(
        invalid="ignore", over="ignore"
    ):  # NaN, infinity and what is too large do not survive the way back
        whole = y.astype(np.int64)
        wrong = (whole.astype(y.dtype) != y) | ((whole < 0) & (y > 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(f"{what} must hold whole numbers, got {y[at]} for sample {at}.")
    return whole


def _encoded(
    labels: dict[str, npt.NDArray[Any]], given: tuple[str, ...] | None, shown: str
) -> tuple[dict[str, npt.NDArray[Any]], tuple[str, ...]]:
    """Labels that are class names as numbers, and the names in the order of their numbers."""
    texts = {key: _text(_column(y), f"{shown}: {key}", each="sample") for key, y in labels.items()}
    present = np.unique(texts["y_train"])
    names = tuple(present.tolist())
    if given is not None and given != names:
        raise InputError(
            f"{shown}: class_names are {_listed(given)}, but the labels are {_listed(names)}: leave class_names out, "
            "or number the labels."
        )
    for key, text in texts.items():
        unknown = ~np.isin(text, present)
        if unknown.any():
            raise InputError(
                f"{shown}: {key} has the label {str(text[unknown][0])!r}, which y_train does not have."
            )
    return {key: np.searchsorted(present, text) for key, text in texts.items()}, names


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


def _column(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def _text(text: npt.NDArray[Any], what: str, *, each: str) -> npt.NDArray[np.str_]:
    if text.ndim != 1 or text.dtype.kind not in "US":
        raise InputError(f"{what} must be text, one per {each}, got {text.dtype} of shape {text.shape}.")
    return np.char.decode(text, "utf-8", "replace") if text.dtype.kind == "S" else text


def _last(x: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """Images with their channels as the last axis; features as they are."""
    if x.dtype.kind not in "iuf":  # NumPy counts a timedelta among the integers
        raise InputError(f"{what} must hold numbers, got {x.dtype}.")
    if x.ndim not in (2, 3, 4):
        raise InputError(f"{what} has the shape {x.shape}: give images (3 or 4 axes) or features (2 axes).")
    if x.ndim == 3:
        x = x[..., None]
    elif x.ndim == 4:
        first, last = x.shape[1] in CHANNELS, x.shape[3] in CHANNELS
        if first and last:
            raise InputError(
                f"{what} has the shape {x.shape}: both axis 1 and axis 3 could be the channels. "
                "Store grey images as N x height x width; pad others to more than 4 pixels a side."
            )
        if not first and not last:
            raise InputError(
                f"{what} has the shape {x.shape}: no axis of 1, 3 or 4 channels at place 1 or 3."
            )
        if first:
            x = x.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(x)


def _scaled(parts: dict[str, npt.NDArray[Any]], shown: str) -> dict[str, npt.NDArray[Any]]:
    """Images as bytes, or as float32 from 0 to 1; features as float32."""
    if parts["x_train"].ndim == 2:
        return {key: _float32(parts.pop(key)) for key in tuple(parts)}
    if len({np.issubdtype(x.dtype, np.integer) for x in parts.values()}) == 2:
        types = " and ".join(f"{key} {x.dtype}" for key, x in parts.items())
        raise InputError(f"{shown}: {types}: store all images as bytes, or all as floats.")
    scales = {key: _scale(x, f"{shown}: {key}") for key, x in parts.items()}
    if len(set(scales.values())) == 2:
        ranges = " and ".join(f"{key} from 0 to {scale}" for key, scale in scales.items())
        raise InputError(f"{shown}: images have different ranges, {ranges}: rescale one part as the other.")
    if np.issubdtype(parts["x_train"].dtype, np.integer):
        return {key: parts.pop(key).astype(np.uint8, copy=False) for key in tuple(parts)}
    return {key: _float32(parts.pop(key), scales[key]) for key in tuple(parts)}


def _scale(x: npt.NDArray[Any], what: str) -> int:
    """The value that stands for white: 255, or 1 for floats that do not exceed it."""
    if x.dtype == np.uint8:
        return 255
    # NaN passes these comparisons and is refused, with its sample's number, by the check that follows.
    lowest, highest = float(np.nanmin(x, initial=0)), float(np.nanmax(x, initial=0))
    if lowest < 0 or highest > 255:
        raise InputError(
            f"{what}: images must be in 0 to 1 or 0 to 255, got {lowest:g} to {highest:g}: rescale them."
        )
    return 1 if highest <= 1 and np.issubdtype(x.dtype, np.floating) else 255


def _float32(x: npt.NDArray[Any], scale: int = 1) -> npt.NDArray[np.float32]:
    if scale == 1 and x.dtype == np.float32:
        return x
    with np.errstate(over="ignore"):  # what is too large becomes infinite and is refused as such
        scaled: npt.NDArray[np.float32] = np.divide(
            x, scale, out=np.empty(x.shape, np.float32), casting="same_kind"
        )
    return scaled
