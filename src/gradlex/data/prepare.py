"""The one place that loads data, splits it into training, validation and test samples, cuts and normalizes it."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate

from gradlex._text import parse
from gradlex.data.augment import as_augmentation, parse_augment
from gradlex.data.inputs import checked_inputs, checked_targets, leaves, printable
from gradlex.data.loaded import Loaded, Part
from gradlex.data.normalization import Normalization
from gradlex.data.registry import DATASETS, DatasetInfo
from gradlex.data.samples import ArraySamples, DatasetSamples, Samples, fingerprint
from gradlex.data.splits import cut, hold_out
from gradlex.errors import InputError, RunError, unknown_name
from gradlex.randomness import stream
from gradlex.recipe import GIVEN, Recipe

_TABLES = (".csv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A run's samples, split once, and what is known of them.

    Examples:
        >>> import gradlex
        >>> parts = gradlex.data.prepare(None, gradlex.Recipe(dataset="digits", validation_fraction=0.1))
        >>> len(parts.train), len(parts.validation), len(parts.test), parts.sample_shape
        (1294, 144, 359, (1, 8, 8))
    """

    train: Samples
    validation: Samples | None
    test: Samples | None
    recipe: Recipe
    """With what the data decides filled in: dataset, test_fraction, image_size, augment, batch_size, task."""
    name: str
    info: DatasetInfo
    class_names: tuple[str, ...] | None
    normalization: Normalization | None
    """Belongs before the network: `normalized(network, normalization)`."""
    encoding: Mapping[str, Any] | None
    """How a table's columns became features."""
    sample_shape: tuple[int, ...] | None
    """The shape of one sample, None for a structure of several tensors."""
    targets: Tensor | None
    """The targets of training and validation samples together, which know all classes; None for a Dataset."""
    fingerprint: str | None
    test_fingerprint: str | None
    notes: tuple[str, ...] = ()
    """What a user should know of how the data was read, a sentence each."""

    def description(self) -> dict[str, Any]:
        """What run.json holds of the data, as plain values; `read_inputs` and `read_samples` need it."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        kept = ("name", "fingerprint", "test_fingerprint", "class_names", "encoding")
        found = {name: getattr(self, name) for name in kept} | {
            "samples": {name: len(part) for name, part in parts.items() if part is not None},
            "input_shape": self.sample_shape,
            "bytes": _in_bytes(self.train),
            "normalization": None if self.normalization is None else asdict(self.normalization),
        }
        plain: dict[str, Any] = json.loads(json.dumps(found))
        return plain


def prepare(
    data: Any,
    recipe: Recipe,
    *,
    test: Any = None,
    validation: Any = None,
    clean: Any = None,
    augment: Any = None,
    data_dir: Path | str | None = None,
) -> Parts:
    """Load the data, split it into training, validation and test samples, cut and normalize it.

    Args:
        data: (x, y) as arrays or tensors, where x may be a structure of them; a map-style Dataset of (input, target),
            or a DataLoader, of which the dataset and collate_fn are used; a pandas DataFrame, whose column
            `recipe.target` is predicted. None is the recipe's dataset.
        recipe: Says which data by name, how it is split, and how training batches are augmented.
        test: Samples that are used only for reporting, in the same form as the data.
        validation: Samples to decide by, in the same form, in place of the recipe's validation_fraction.
        clean: The same samples as the data, as a Dataset without random transforms, for selection and evaluation.
        augment: A function (batch, rng) -> batch, such as `crop_flip(4)`, or a torchvision transform, for training.
        data_dir: Where downloaded datasets are kept (default: the user's cache folder).

    Examples:
        >>> import torch
        >>> import gradlex
        >>> images, labels = torch.randint(256, (50, 3, 8, 8), dtype=torch.uint8), torch.arange(50) % 5
        >>> parts = gradlex.data.prepare((images, labels), gradlex.Recipe(test_fraction=0.2))
        >>> len(parts.train), parts.test.targets.bincount().tolist()  # stratified
        (40, [2, 2, 2, 2, 2])
    """
    loaded = _load(recipe, data_dir) if data is None else _given(data, recipe, clean)
    train, held = loaded.train, loaded.test if test is None else _other(test, loaded, "test", recipe.target)

    # Cut off a test part, and a part to train on: the same for every seed.
    plain = recipe.task is None or parse(recipe.task)[0] == "classification"
    labels = plain and train.targets is not None and train.targets.ndim == 1 and train.targets.dtype == torch.int64
    labeled, fraction, total = loaded.labeled or labels, recipe.test_fraction, len(train)
    if held is not None and fraction is not None:
        raise InputError(f"this data has a test part of its own, got test_fraction {fraction:g}: leave it out.")
    if held is None and (fraction or not loaded.passed_in):
        fraction = fraction or 0.2
        size = total - round(total * fraction)
        if size == total:
            raise InputError(f"test_fraction {fraction:g} of {total} samples leaves none for testing: give more.")
        kept, rest = cut(train.targets if labeled else None, total, size, f"test_fraction {fraction:g}")
        train, held = train.take(kept), train.take(rest)
    if recipe.train_size is not None and recipe.train_size != len(train):
        asked = f"train_size {recipe.train_size}"
        if recipe.train_size > len(train):
            raise InputError(f"{asked} is more than the {len(train)} training samples: give fewer, or leave it out.")
        train = train.take(cut(train.targets if labeled else None, len(train), recipe.train_size, asked)[0])

    # Set a validation part apart, before anything is learned from the other samples.
    everything, checked = train, None if validation is None else _other(validation, loaded, "validation", recipe.target)
    if recipe.validation_fraction is not None:
        if checked is not None:
            raise InputError("the validation part is given twice: as validation= and as validation_fraction.")
        kept, rest = hold_out(recipe.seed, len(train), recipe.validation_fraction)
        train, checked = train.take(kept), train.take(rest)

    encoding = None if isinstance(train, Samples) else train.encoding(str(recipe.target), loaded.class_names)
    own, checked, held, whole = (_encoded(part, encoding) for part in (train, checked, held, everything))
    for name, part in (("validation", checked), ("test", held)):
        if part is not None and _in_bytes(part) != _in_bytes(own):
            kinds = ["bytes (torch.uint8)" if _in_bytes(each) else "other numbers" for each in (part, own)]
            raise InputError(f"the {name} part holds {kinds[0]}, the training part {kinds[1]}: give both alike.")
    normalizes = encoding is None and (_in_bytes(own) or not loaded.passed_in)
    inputs = own.clean(np.arange(1))[0]
    shape = tuple(inputs.shape[1:]) if isinstance(inputs, Tensor) else None
    if augment is None:
        augment = recipe.augment or _default_augment(loaded, own, shape)
    task = recipe.task
    if task is None and not loaded.passed_in:
        numbers = encoding is not None or own.targets.ndim == 1
        task = "classification" if loaded.labeled else "regression" if numbers else None
    return Parts(
        train=_augmented(own, augment, recipe),
        validation=checked,
        test=held,
        recipe=recipe.replace(
            dataset=recipe.dataset if data is None else GIVEN,
            test_fraction=fraction,
            image_size=loaded.image_size,
            augment=augment if isinstance(augment, str) else GIVEN,
            batch_size=recipe.batch_size or loaded.info.batch_size,
            task=task,
        ),
        name=Path(recipe.dataset).name if data is None else GIVEN,
        info=loaded.info,
        class_names=loaded.class_names,
        normalization=Normalization.of(own.stored.cpu().numpy()) if normalizes else None,
        encoding=encoding,
        sample_shape=shape,
        targets=whole.targets,
        fingerprint=fingerprint(whole, held, *([] if validation is None else [checked])),
        test_fingerprint=fingerprint(held),
        notes=loaded.notes,
    )


def read_inputs(given: Any, described: Mapping[str, Any]) -> tuple[list[str], Tensor]:
    """The inputs of new samples, and what each is called.

    Args:
        given: The path of an image, a folder of images, a .npz archive with an array x, or a table; or a DataFrame.
        described: What run.json holds of the data (`Parts.description`), which says how tables are encoded.
    """
    path = Path(given).expanduser() if isinstance(given, str | os.PathLike) else None
    shown, shape, encoding = printable(path), described.get("input_shape"), described.get("encoding")
    if path is None or path.suffix.lower() in _TABLES:
        from gradlex.data.tables import encode_inputs, read_table

        if encoding is None:
            raise InputError("this run wasn't trained on a table: give images or a .npz archive.")
        x = encode_inputs(read_table(given if path is None else path, encoding), encoding)
    elif path.suffix.lower() == ".npz":
        from gradlex.data.archives import images_or_features, read_archive

        found = read_archive(path)
        if "x" not in found:
            raise InputError(f"{shown} has no array x; it holds {printable(', '.join(found)) or 'nothing'}: name it x.")
        x = images_or_features(found["x"], f"{shown}: x")
        x = x if described.get("bytes", True) else x.float()
    else:
        from gradlex.data.folders import read_images

        if not shape or shape != [3, shape[-1], shape[-1]]:
            raise InputError(
                f"{shown}: images are (3, size, size), the run was trained on {shape}: give a .npz archive."
            )
        return read_images(path, shape[1])
    if shape is not None and list(x.shape[1:]) != shape:
        raise InputError(f"{shown} has samples of shape {tuple(x.shape[1:])}, the run was trained on {tuple(shape)}.")
    return [str(number) for number in range(len(x))], x


def read_samples(given: Any, described: Mapping[str, Any], *, data_dir: Path | str | None = None) -> Samples:
    """Samples to evaluate a finished run on: the test part of data by name that has its own, else all samples.

    Args:
        given: Data in any form that `prepare` takes, or a dataset's name or path.
        described: What run.json holds of the data (`Parts.description`).
        data_dir: Where downloaded datasets are kept.
    """
    encoding, names = described.get("encoding"), described.get("class_names")
    path = Path(given).expanduser() if isinstance(given, str | os.PathLike) else None
    if encoding is not None:
        from gradlex.data.tables import read_rows

        return read_rows(given if path is None else path, encoding).encoded(encoding)
    if path is None:
        return cast(Samples, _given(given, Recipe(), None).train)
    size = described["input_shape"][-1] if path.is_dir() and str(given) not in DATASETS else None
    loaded = _load(Recipe(dataset=str(given), image_size=size), data_dir)
    if names and loaded.class_names and list(loaded.class_names) != names:
        raise InputError(
            f"{printable(given)} has the classes {printable(', '.join(loaded.class_names))}, the run was trained "
            f"on {printable(', '.join(names))}."
        )
    return cast(Samples, loaded.test or loaded.train)


def _load(recipe: Recipe, data_dir: Path | str | None) -> Loaded:
    """The recipe's dataset as its source holds it."""
    name, path = recipe.dataset, Path(recipe.dataset).expanduser()
    task, kind = None if recipe.task is None else parse(recipe.task)[0], path.suffix.lower()
    kind = "public" if name in DATASETS else "folder" if path.is_dir() else "table" if kind in _TABLES else kind
    for field, needs in (("target", "table"), ("image_size", "folder")):
        if getattr(recipe, field) is not None and kind != needs:
            raise InputError(f"{field} is for a {needs}, which {printable(name)} isn't: leave it out.")
    if kind == "public":
        from gradlex.data.public import load_public

        return load_public(name, data_dir)
    if kind == "folder":
        from gradlex.data.folders import load_folder

        return load_folder(path, recipe.image_size or 32)
    if kind == "table":
        from gradlex.data.tables import load_table

        return load_table(path, recipe.target, task)
    if kind == ".npz":
        from gradlex.data.archives import load_archive

        return load_archive(path, task)
    if name != GIVEN and not kind and os.sep not in name and not path.exists():
        raise unknown_name("dataset", name, DATASETS)
    raise InputError(
        f"{printable(name)} is neither a folder of images nor a .npz, .csv or .parquet file: check the path, or pass "
        "data that was passed in again."
    )


def _given(data: Any, recipe: Recipe, clean: Any) -> Loaded:
    """Data that was passed in."""
    for field in ("target", "image_size"):
        if getattr(recipe, field) is not None and not (field == "target" and hasattr(data, "iloc")):
            raise InputError(f"{field} is for tables and folders of images, got a {type(data).__name__}: leave it out.")
    if hasattr(data, "iloc"):  # a data frame
        from gradlex.data.tables import load_table

        return load_table(data, recipe.target, None if recipe.task is None else parse(recipe.task)[0])
    if isinstance(data, tuple | list):
        if clean is not None:
            raise InputError("clean= is another view of a Dataset with transforms; arrays are clean already.")
        return Loaded(train=_array_samples(data), passed_in=True)
    dataset, collate = _dataset(data)
    view, view_collate = (None, None) if clean is None else _dataset(clean)
    samples = DatasetSamples(dataset, view, collate=collate, clean_collate=view_collate)
    try:
        varies = samples.clean_varies
    except InputError:
        raise
    except Exception as error:  # whatever a user's Dataset may raise
        raise InputError(f"the data's first samples cannot be read: {printable(repr(error))}") from error
    if varies:
        warnings.warn(
            f"{type(dataset).__name__} transforms its samples at random, so selection and evaluation would see "
            "augmented ones: give the same samples without random transforms as clean=.",
            stacklevel=3,
        )
    return Loaded(train=samples, passed_in=True)


def _array_samples(data: Any) -> ArraySamples:
    if len(data) != 2:
        raise InputError(
            f"data given as arrays must be the pair (x, y), got {len(data)} of them: several inputs go into one tuple, "
            "((x1, x2), y), and a list of samples into a Dataset."
        )
    x, y = checked_inputs(data[0]), checked_targets(data[1])
    samples = len(leaves(x)[0])
    if samples != len(y) or samples == 0:
        raise InputError(f"the data has {samples} samples and {len(y)} targets: give as many, and at least one.")
    if isinstance(x, Tensor) and x.dtype == torch.uint8 and x.ndim not in (2, 4):
        raise InputError(f"bytes must be (N, channels, height, width) or (N, features), got {tuple(x.shape)}.")
    if isinstance(x, Tensor) and x.ndim == 4 and x.is_floating_point() and x.min() >= 0 and 2 < x.max() <= 255:
        warnings.warn(
            f"x holds images as floats up to {float(x.max()):g}, which are not normalized: give bytes (uint8), which "
            "are, or divide them by 255.",
            stacklevel=4,
        )
    return ArraySamples(x, y)


def _dataset(data: Any) -> tuple[Any, Any]:
    """A map-style Dataset and its collate function, a DataLoader's own."""
    collate: Any = default_collate
    if isinstance(data, DataLoader):
        if data.batch_size is None and data.batch_sampler is None:
            raise InputError("a DataLoader with batch_size=None doesn't collate samples: give its dataset.")
        data, collate = data.dataset, data.collate_fn
    wrong = isinstance(data, Tensor | np.ndarray | dict | str | bytes | IterableDataset)
    if wrong or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise InputError(
            "data must be the pair (x, y), a map-style Dataset, a DataLoader over one or a DataFrame, got "
            f"{type(data).__name__}. (Samples need numbers, which an iterable dataset doesn't have.)"
        )
    if len(data) == 0:
        raise InputError(f"the dataset {type(data).__name__} is empty.")
    return data, collate


def _other(given: Any, loaded: Loaded, name: str, target: str | None) -> Part:
    """A test or validation part that was passed in."""
    try:
        if isinstance(loaded.train, Samples):
            return _given(given, Recipe(), None).train
        from gradlex.data.tables import read_rows

        return read_rows(given, {"target": target, "class_names": loaded.class_names})
    except InputError as error:
        raise InputError(f"in the {name} part: {error}") from error


def _encoded(part: Part | None, encoding: Mapping[str, Any] | None) -> Any:
    return part if part is None or isinstance(part, Samples) or encoding is None else part.encoded(encoding)


def _default_augment(loaded: Loaded, samples: Samples, shape: tuple[int, ...] | None) -> str:
    """The dataset's; one's own files of color images in bytes are cropped by an eighth of their size and flipped."""
    if loaded.passed_in or loaded.info.name in DATASETS or not _in_bytes(samples) or not shape or shape[0] != 3:
        return loaded.info.augment
    return f"crop{max(1, min(shape[1:]) // 8)},flip"


def _augmented(samples: Samples, given: Any, recipe: Recipe) -> Samples:
    """The samples with their augmentation, which is tried on a first batch."""
    if given == GIVEN or not (isinstance(given, str) or recipe.augment in (None, GIVEN)):
        raise InputError(
            f"augment {recipe.augment!r} in the recipe: give a text there, or an object as augment=, which isn't "
            "stored, but not both."
        )
    found = samples.replace(augment=parse_augment(given) if isinstance(given, str) else as_augmentation(given))
    try:
        found.augmented(np.arange(min(8, len(samples))), stream(recipe.seed, "augmentation"))
    except RunError as error:
        raise InputError(str(error)) from error
    return found


def _in_bytes(samples: Any) -> bool:
    x = getattr(samples, "stored", None)
    return isinstance(x, Tensor) and x.dtype == torch.uint8
