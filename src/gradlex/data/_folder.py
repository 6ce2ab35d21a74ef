"""A folder of pictures: train/<class>/ and, where there is a test part, test/<class>/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps
from torchvision.datasets.folder import IMG_EXTENSIONS

from gradlex.data._arrays import Arrays
from gradlex.errors import InputError


def folder(root: Path, image_size: int) -> Arrays:
    """All pictures as RGB bytes, resized to `image_size` square; classes are the names under train/."""
    try:
        names = _classes(root / "train")
        x_train, y_train = _part(root / "train", names, image_size)
        has_test = (root / "test").is_dir()
        x_test, y_test = _part(root / "test", names, image_size) if has_test else (None, None)
    except OSError as error:
        raise InputError(f"the folder {root} cannot be read: {error}.") from error
    empty = [name for label, name in enumerate(names) if label not in y_train]
    if empty:
        raise InputError(f"{root / 'train' / empty[0]} holds no picture: add some, or remove the folder.")
    return Arrays(x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test, class_names=names)


def _classes(part: Path) -> tuple[str, ...]:
    if not part.is_dir():
        raise InputError(
            f"there is no folder {part}: a folder of pictures has train/<class>/ and test/<class>/."
        )
    _refuse_leading_out(part, part)
    names = tuple(sorted(p.name for p in part.iterdir() if p.is_dir() and not p.name.startswith(".")))
    if not names:
        raise InputError(f"{part} has no class folders: put pictures into {part.name}/<class>/.")
    return names


def _part(
    part: Path, names: tuple[str, ...], image_size: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    unknown = sorted(set(_classes(part)) - set(names))
    if unknown:
        raise InputError(f"{part} has the class {unknown[0]!r}, which train/ has not.")
    labelled = [
        (path, label)
        for label, name in enumerate(names)
        if (part / name).is_dir()
        for path in _pictures(part / name, part)
    ]
    if not labelled:
        raise InputError(f"{part} holds no picture ({', '.join(IMG_EXTENSIONS)}).")
    try:
        pictures = np.empty((len(labelled), image_size, image_size, 3), dtype=np.uint8)
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than an address can count
        raise InputError(
            f"{len(labelled)} pictures of image_size {image_size} do not fit into memory: choose a smaller one."
        ) from error
    for place, (path, _) in enumerate(labelled):
        pictures[place] = _picture(path, image_size)
    return pictures, np.array([label for _, label in labelled], dtype=np.int64)


def _pictures(inside: Path, part: Path) -> Iterator[Path]:
    """The pictures of one class, in folders below it too, in the order of their names; not the hidden ones."""
    _refuse_leading_out(inside, part)
    for path in sorted(inside.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _pictures(path, part)
        elif path.suffix.lower() in IMG_EXTENSIONS:
            _refuse_leading_out(path, part)
            yield path


def _refuse_leading_out(path: Path, part: Path) -> None:
    """A link to a picture of the same part is fine; one to a folder might lead anywhere, even round."""
    if path.is_symlink() and path.is_dir():
        raise InputError(f"{path} is a link to a folder: put the folder itself there.")
    if path.is_symlink() and not path.resolve().is_relative_to(part.resolve()):
        raise InputError(f"{path} is a link that leads out of {part}: put the picture itself there.")


def _picture(path: Path, image_size: int) -> npt.NDArray[np.uint8]:
    if not path.is_file():
        raise InputError(f"the picture {path} cannot be read: it is not a file. Mend or remove it.")
    try:
        with Image.open(path) as picture:
            upright = ImageOps.exif_transpose(picture)  # a camera stores how it was held
            square = _rgb(upright).resize((image_size, image_size), Image.Resampling.BILINEAR)
            return np.asarray(square)
    except Exception as error:  # a damaged picture makes Pillow raise many kinds
        raise InputError(f"the picture {path} cannot be read: {error}. Mend or remove it.") from error


def _rgb(picture: Image.Image) -> Image.Image:
    """Three channels of bytes; Pillow alone would clip deeper pixels, turning nearly all of them white."""
    if picture.mode == "F":
        raise InputError("its pixels are floats of an unknown range; store it with 8 bits a channel")
    if picture.mode.startswith("I"):
        pixels = np.asarray(picture)
        if picture.mode == "I" and not (pixels.min() >= 0 and 255 < pixels.max() < 1 << 16):
            raise InputError(
                f"its pixels are whole numbers of an unknown range, {pixels.min()} to {pixels.max()}; store it with 8 "
                "or 16 bits a channel"
            )
        picture = Image.fromarray((pixels >> 8).astype(np.uint8))
    if picture.mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")
    return picture.convert("RGB")
