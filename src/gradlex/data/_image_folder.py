"""A folder of images: train/<class>/ and test/<class>/, or <class>/ alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps
from torchvision.datasets.folder import IMG_EXTENSIONS

from gradlex.data._arrays import Arrays, escaped
from gradlex.errors import InputError

_VALIDATION = ("val", "valid", "validation")


def image_folder(root: Path, image_size: int) -> Arrays:
    """All images as RGB bytes, resized to `image_size` square; classes are the folders' names, sorted.

    Without test/ a folder of validation images is the test part; without train/ the folder itself holds the classes.
    """
    shown = escaped(root)
    try:
        train, test, notes = _parts(root)
        names = _classes(train)
        x_train, y_train = _part(train, names, image_size)
        x_test, y_test = (None, None) if test is None else _part(test, names, image_size)
    except OSError as error:
        raise InputError(f"the folder {shown} cannot be read: {escaped(error)}.") from error
    empty = [name for label, name in enumerate(names) if label not in y_train]
    if empty:
        raise InputError(f"{escaped(train / empty[0])} contains no images: add some, or remove the folder.")
    return Arrays(
        x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test, class_names=names, notes=notes
    )


def is_image(path: Path) -> bool:
    """Whether a file is named as images are."""
    return path.suffix.lower() in IMG_EXTENSIONS


def read_images(path: Path, image_size: int) -> tuple[list[str], npt.NDArray[np.uint8]]:
    """One image, or all of a folder and those below it, with their names; as a dataset's are, RGB and square."""
    try:
        paths = [path] if is_image(path) and not path.is_dir() else list(_image_paths(path, set()))
    except OSError as error:
        raise InputError(f"the folder {escaped(path)} cannot be read: {escaped(error)}.") from error
    if not paths:
        raise InputError(f"{escaped(path)} contains no images ({', '.join(IMG_EXTENSIONS)}).")
    names = [str(each.relative_to(path)) if path.is_dir() else each.name for each in paths]
    return names, _images(paths, image_size)


def _parts(root: Path) -> tuple[Path, Path | None, tuple[str, ...]]:
    """The folder of the training images, that of the test images, and what to tell of the choice."""
    shown = escaped(root)
    present = [name for name in ("test", *_VALIDATION) if (root / name).is_dir()]
    if not (root / "train").is_dir():
        if present:
            raise InputError(
                f"{shown} has {present[0]}/ but no train/: put the training images into train/<class>/, or all "
                "images into <class>/ without train/ and test/."
            )
        return root, None, ()
    if "test" in present:
        left_out = " and ".join(f"{name}/" for name in present[1:])
        return root / "train", root / "test", (f"{shown}: {left_out} is not used.",) if left_out else ()
    if len(present) > 1:
        raise InputError(f"{shown} has {present[0]}/ and {present[1]}/ but no test/: call one of them test/.")
    if present:
        return root / "train", root / present[0], (f"{shown}: {present[0]}/ is the test part.",)
    return root / "train", None, ()


def _classes(part: Path) -> tuple[str, ...]:
    names = []
    for path in part.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_symlink() and not path.exists():
            raise InputError(f"{escaped(path)} is a broken link: fix or remove it.")
        if path.is_dir():
            names.append(path.name)
    if not names:
        raise InputError(
            f"{escaped(part)} has no class folders: a folder of images has train/<class>/ and test/<class>/, or "
            "<class>/ alone."
        )
    return tuple(sorted(names))


def _part(
    part: Path, names: tuple[str, ...], image_size: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    unknown = sorted(set(_classes(part)) - set(names))
    if unknown:
        raise InputError(f"{escaped(part)} has the class {unknown[0]!r}, which train/ does not have.")
    labelled = [
        (path, label)
        for label, name in enumerate(names)
        if (part / name).is_dir()
        for path in _image_paths(part / name, set())
    ]
    if not labelled:
        raise InputError(
            f"{escaped(part)} contains no images ({', '.join(IMG_EXTENSIONS)}) in its class folders."
        )
    images = _images([path for path, _ in labelled], image_size)
    return images, np.array([label for _, label in labelled], dtype=np.int64)


def _images(paths: list[Path], image_size: int) -> npt.NDArray[np.uint8]:
    try:
        images = np.empty((len(paths), image_size, image_size, 3), dtype=np.uint8)
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than an address can count
        raise InputError(
            f"{len(paths)} images of image_size {image_size} do not fit into memory: choose a smaller one."
        ) from error
    formats = _formats()
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)  # Pillow itself refuses twice as much
        for place, path in enumerate(paths):
            images[place] = _image(path, image_size, formats)
    return images


def _image_paths(folder: Path, visited: set[Path]) -> Iterator[Path]:
    """The images of one class, in folders below it too, in the order of their names; not the hidden ones.

    Links are followed. A folder that was visited already, which a link may lead back to, is not visited again.
    """
    resolved = folder.resolve()
    if resolved in visited:
        return
    visited.add(resolved)
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _image_paths(path, visited)
        elif path.suffix.lower() in IMG_EXTENSIONS:
            yield path


def _formats() -> list[str]:
    """What Pillow may take an image for, whatever its name: it hands other formats, PostScript, to other programs.

    All formats of images are allowed for each extension, since a JPEG is often named .png, and the reverse.
    """
    known = Image.registered_extensions()
    return sorted({known[extension] for extension in IMG_EXTENSIONS if extension in known})


def _image(path: Path, image_size: int, formats: list[str]) -> npt.NDArray[np.uint8]:
    if not path.is_file():
        raise InputError(f"the image {escaped(path)} cannot be read: it is not a file. Fix or remove it.")
    try:
        with Image.open(path, formats=formats) as image:
            upright = ImageOps.exif_transpose(image)  # a camera stores how it was held
            square = _rgb(upright).resize((image_size, image_size), Image.Resampling.BILINEAR)
            return np.asarray(square)
    except Exception as error:  # a damaged image makes Pillow raise many kinds
        raise InputError(
            f"the image {escaped(path)} cannot be read: {escaped(error)}. Fix or remove it."
        ) from error


def _rgb(image: Image.Image) -> Image.Image:
    """Three channels of bytes; Pillow alone would clip deeper pixels, turning nearly all of them white."""
    if image.mode == "F":
        raise InputError("its pixels are floats of an unknown range; store it with 8 bits a channel")
    if image.mode.startswith("I"):
        pixels = np.asarray(image)
        if image.mode == "I" and not (pixels.min() >= 0 and 255 < pixels.max() < 1 << 16):
            raise InputError(
                f"its pixels are whole numbers of an unknown range, {pixels.min()} to {pixels.max()}; store it with 8 "
                "or 16 bits a channel"
            )
        image = Image.fromarray((pixels >> 8).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")
