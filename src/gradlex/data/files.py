"""Samples from NumPy archives (.npz) and from folders of images."""

from __future__ import annotations

import os
import warnings
import zipfile
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps
from torchvision.datasets.folder import IMG_EXTENSIONS, is_image_file

from gradlex._files import check_file
from gradlex.data.inputs import check_memory, checked_inputs, checked_targets, printable
from gradlex.data.samples import ArraySamples
from gradlex.errors import InputError

Array: TypeAlias = npt.NDArray[Any]

_CHANNELS = (1, 3, 4)


def load_archive(path: Path, task: str | None) -> tuple[ArraySamples, ArraySamples | None, tuple[str, ...] | None]:
    """Training samples, test samples and class names: arrays x_train, y_train, x_test, y_test and class_names.

    Targets are class numbers if they are whole, one a sample, unless another task than classification is named.
    """
    shown, found = printable(path), read_archive(path)
    parts = ["train", *(["test"] if {"x_test", "y_test"} & found.keys() else [])]
    lacks = {f"{axis}_{part}" for part in parts for axis in "xy"} - found.keys()
    if lacks:
        raise InputError(
            f"{shown} has no {min(lacks)!r}; it holds {printable(', '.join(sorted(found))) or 'nothing'}. Name its "
            "arrays x_train and y_train, and for a test part x_test and y_test."
        )
    targets = {part: found.pop(f"y_{part}") for part in parts}
    targets = {part: y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y for part, y in targets.items()}
    labeled = task in (None, "classification") and all(map(_are_labels, targets.values()))
    names = tuple(map(str, found["class_names"].ravel())) if labeled and "class_names" in found else None
    if names is not None and len(names) <= targets["train"].max():
        raise InputError(f"{shown} has {len(names)} class_names, and labels up to {targets['train'].max()}: name each.")
    classes = np.unique(targets["train"])
    if labeled and names is None and not np.array_equal(classes, np.arange(len(classes))):
        listed = ", ".join(f"{each:g}" for each in classes[:5])
        raise InputError(f"{shown}: number the classes from 0 without gaps; the labels are {listed}.")
    samples = {}
    for part in parts:
        # Each array leaves `found` as it is taken, so that a changed copy doesn't lie beside its original.
        x = images_or_features(found.pop(f"x_{part}"), f"{shown}: x_{part}")
        y = checked_targets(targets[part].astype(np.int64) if labeled else targets[part], f"{shown}: y_{part}")
        samples[part] = ArraySamples(x, y, f"{shown}: the {part} part")
    return samples["train"], samples.get("test"), names


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
            f"{printable(path)} is not a valid .npz archive of numbers and text ({why}): write it with numpy.savez."
        ) from error


def images_or_features(x: Array, what: str) -> torch.Tensor:
    """Images as (N, channels, height, width), features as they are; whole numbers from 0 to 255 as bytes."""
    first, last = (x.ndim == 4 and x.shape[axis] in _CHANNELS for axis in (1, -1))
    if x.dtype.kind not in "iuf" or x.ndim not in (2, 3, 4) or (x.ndim == 4 and first == last):
        raise InputError(
            f"{what} must hold numbers: features (N, features), gray images (N, height, width), or images with 1, 3 or "
            f"4 channels in either axis 1 or axis 3, got {x.dtype} of shape {x.shape}."
        )
    if x.ndim == 3:
        x = x[:, None]
    elif last:
        x = x.transpose(0, 3, 1, 2)
    if x.ndim == 4 and x.dtype.kind in "iu" and x.size and x.min() >= 0 and x.max() <= 255:
        x = x.astype(np.uint8, copy=False)
    elif x.dtype != np.uint8:
        with np.errstate(over="ignore"):  # infinity, which is an error
            x = x.astype(np.float32, copy=False)
    checked: torch.Tensor = checked_inputs(torch.from_numpy(x), what)
    return checked


def _are_labels(y: Array) -> bool:
    return y.ndim == 1 and y.dtype.kind in "biuf" and bool((y == np.round(y)).all())


def load_folder(root: Path, image_size: int) -> tuple[ArraySamples, ArraySamples | None, tuple[str, ...]]:
    """Training samples, test samples and class names of train/<class>/ and test/<class>/, or <class>/ alone.

    Images become RGB bytes, `image_size` square. Without test/, a folder of validation images is the test part.
    """
    tests = [root / name for name in ("test", "val", "valid", "validation") if (root / name).is_dir()]
    train = root / "train" if tests or (root / "train").is_dir() else root
    try:
        found, test = _classes(train), _classes(tests[0]) if tests else {}
    except OSError as error:
        raise InputError(f"the folder {printable(root)} cannot be read: {printable(error)}.") from error
    wrong = [f"no images ({', '.join(IMG_EXTENSIONS)}) in {name!r}" for name, paths in found.items() if not paths]
    wrong += [f"the class {name!r}, which the training part doesn't have" for name in test if name not in found]
    wrong += ["fewer than two classes"] * (len(found) < 2) + ["no test images"] * bool(tests and not any(test.values()))
    if wrong:
        raise InputError(
            f"{printable(root)} has {wrong[0]}: a folder of images has train/<class>/ and test/<class>/, or <class>/ "
            "alone."
        )
    samples = []
    for part in (found, test) if tests else (found,):
        labels = [label for label, name in enumerate(found) for _ in part.get(name, ())]
        images = _images([path for name in found for path in part.get(name, ())], image_size)
        samples.append(ArraySamples(images, torch.tensor(labels)))
    return samples[0], samples[1] if tests else None, tuple(found)


def read_images(path: Path, image_size: int) -> tuple[list[str], torch.Tensor]:
    """One image, or all of a folder and those below it, with their names; RGB and square, as a dataset's are."""
    paths = _image_paths(path) if path.is_dir() else [path]
    if not paths or not is_image_file(str(paths[0])):
        raise InputError(f"{printable(path)} contains no images ({', '.join(IMG_EXTENSIONS)}).")
    return [str(each.relative_to(path)) if path.is_dir() else each.name for each in paths], _images(paths, image_size)


def _classes(part: Path) -> dict[str, list[Path]]:
    """The images of each class, sorted by its name."""
    own, found = part.resolve(), {}
    for folder in sorted(path for path in part.iterdir() if path.is_dir() and not path.name.startswith(".")):
        target = folder.resolve()
        if folder.is_symlink() and (own.is_relative_to(target) or target.is_relative_to(own)):
            raise InputError(f"{printable(folder)} is a link back into {printable(part)}: remove it.")
        found[folder.name] = _image_paths(folder)
    return found


def _image_paths(folder: Path) -> list[Path]:
    """The images of one class, in folders below it too, but neither hidden ones nor through links to folders."""
    found = []
    for here, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(here, name) for name in sorted(files) if is_image_file(name) and not name.startswith(".")]
    return found


def _images(paths: list[Path], image_size: int) -> torch.Tensor:
    """(N, 3, size, size) bytes that lie channels-last."""
    check_memory(len(paths) * image_size**2 * 3, f"{len(paths)} images of image_size {image_size}")
    images = np.empty((len(paths), image_size, image_size, 3), dtype=np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        for place, path in enumerate(paths):
            images[place] = _image(path, image_size)
    return torch.from_numpy(images).permute(0, 3, 1, 2)


def _image(path: Path, image_size: int) -> npt.NDArray[np.uint8]:
    check_file(path)
    # What Pillow may take an image for, whatever its name: other formats, such as PostScript, start other programs.
    known = Image.registered_extensions()
    formats = {known[extension] for extension in IMG_EXTENSIONS if extension in known}
    try:
        with Image.open(path, formats=sorted(formats)) as image:
            if image.mode[0] in "FI":  # Pillow would clip such pixels, turning nearly all of them white
                raise ValueError("it has more than 8 bits a channel")  # noqa: TRY301
            upright = ImageOps.exif_transpose(image)  # a camera stores how it was held
            plain = upright.convert("RGBA") if "transparency" in upright.info else upright
            return np.asarray(plain.convert("RGB").resize((image_size, image_size), Image.Resampling.BILINEAR))
    except Exception as error:  # a damaged image makes Pillow raise many kinds
        raise InputError(
            f"the image {printable(path)} cannot be read: {printable(error)}. Fix or remove it."
        ) from error
