"""A folder of images: train/<class>/ and test/<class>/, or <class>/ alone."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps
from torchvision.datasets.folder import IMG_EXTENSIONS, find_classes, is_image_file

from gradlex._files import check_file
from gradlex.data.inputs import printable
from gradlex.data.loaded import Loaded, check_memory
from gradlex.data.samples import ArraySamples
from gradlex.errors import InputError

_TESTS = ("test", "val", "valid", "validation")
_WORDS = "a folder of images has train/<class>/ and test/<class>/, or <class>/ alone"


def load_folder(root: Path, image_size: int) -> Loaded:
    """All images as RGB bytes, resized to `image_size` square; classes are the folders' names, sorted.

    Without test/, a folder of validation images is the test part; without train/, the folder itself holds the classes.
    Links to folders inside a class are not followed.
    """
    shown = printable(root)
    tests = [name for name in _TESTS if (root / name).is_dir()]
    train = root / "train" if (root / "train").is_dir() else root
    if tests and train == root:
        raise InputError(f"{shown} has {tests[0]}/ but no train/: {_WORDS}.")
    try:
        names, samples = _part(train, None, image_size)
        test = _part(root / tests[0], names, image_size)[1] if tests else None
    except OSError as error:
        raise InputError(f"the folder {shown} cannot be read: {printable(error)}.") from error
    notes = [f"{shown}: {name}/ is not used." for name in tests[1:]]
    if tests and tests[0] != "test":
        notes = [f"{shown}: {tests[0]}/ is the test part.", *notes]
    return Loaded(train=samples, test=test, labeled=True, class_names=names, image_size=image_size, notes=tuple(notes))


def read_images(path: Path, image_size: int) -> tuple[list[str], torch.Tensor]:
    """One image, or all of a folder and those below it, with their names; RGB and square, as a dataset's are."""
    paths = _image_paths(path) if path.is_dir() else [path]
    if not paths or not is_image_file(str(paths[0])):
        raise InputError(f"{printable(path)} contains no images ({', '.join(IMG_EXTENSIONS)}).")
    return [str(each.relative_to(path)) if path.is_dir() else each.name for each in paths], _images(paths, image_size)


def _part(part: Path, known: tuple[str, ...] | None, image_size: int) -> tuple[tuple[str, ...], ArraySamples]:
    """The classes of the training part, or the `known` ones, and the samples of a part."""
    own = part.resolve()
    found = {}
    for name in find_classes(part)[0]:
        path = part / name
        target = path.resolve()
        if path.is_symlink() and (own.is_relative_to(target) or target.is_relative_to(own)):
            raise InputError(f"{printable(path)} is a link back into {printable(part)}: remove it.")
        if not name.startswith("."):
            found[name] = _image_paths(path)
    names = known or tuple(found)
    unknown = [name for name in found if name not in names]
    if unknown:
        raise InputError(f"{printable(part)} has the class {unknown[0]!r}, which the training part doesn't have.")
    empty = [name for name, paths in found.items() if not paths]
    if len(names) < 2 or not any(found.values()) or (empty and not known):
        wrong = f"no images ({', '.join(IMG_EXTENSIONS)}) in {empty[0]!r}" if empty else "fewer than two classes"
        raise InputError(f"{printable(part)} has {wrong}: {_WORDS}.")
    labels = [label for label, name in enumerate(names) for _ in found.get(name, ())]
    return names, ArraySamples(
        _images([path for name in names for path in found.get(name, ())], image_size), torch.tensor(labels)
    )


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
            deep = image.mode[0] in "FI"  # Pillow would clip such pixels, turning nearly all of them white
            upright = ImageOps.exif_transpose(image)  # a camera stores how it was held
            plain = upright.convert("RGBA") if "transparency" in upright.info else upright
            pixels = np.asarray(plain.convert("RGB").resize((image_size, image_size), Image.Resampling.BILINEAR))
    except Exception as error:  # a damaged image makes Pillow raise many kinds
        raise InputError(
            f"the image {printable(path)} cannot be read: {printable(error)}. Fix or remove it."
        ) from error
    if deep:
        raise InputError(f"the image {printable(path)} has more than 8 bits a channel: convert it to 8 bits.")
    return pixels
