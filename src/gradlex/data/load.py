"""Data in any form, by name, path or as an object -> samples, or rows of a table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from gradlex._text import parse
from gradlex.data.datasets import DATASETS, load_public
from gradlex.data.inputs import checked_inputs, checked_targets, printable
from gradlex.data.samples import ArraySamples, DatasetSamples, Samples
from gradlex.errors import InputError, did_you_mean, warn
from gradlex.recipe import GIVEN, Recipe

_ENDINGS = {".npz": "archive", ".csv": "table", ".parquet": "table"}


def kind_of(dataset: str) -> str:
    """What a dataset's name or path stands for: public, folder, archive or table."""
    path = Path(dataset).expanduser()
    kind = "public" if dataset in DATASETS else "folder" if path.is_dir() else _ENDINGS.get(path.suffix.lower())
    if dataset == GIVEN:
        raise InputError("the data was passed in from Python, which isn't stored: pass it in again.")
    if kind is None:
        raise InputError(
            f"unknown dataset {dataset!r:.200}.{did_you_mean(dataset, DATASETS)} Give one of {', '.join(DATASETS)}, a "
            "folder of images, or a .npz, .csv or .parquet file."
        )
    return kind


def load(
    data: Any, recipe: Recipe, clean: Any = None, data_dir: Path | str | None = None
) -> tuple[Any, Any, tuple[str, ...] | None]:
    """Training and test samples, or rows of a table, and class names; without data, of the recipe's dataset."""
    given = "table" if hasattr(data, "iloc") else "arrays"
    kind, path = kind_of(recipe.dataset) if data is None else given, Path(recipe.dataset).expanduser()
    for field, needs in (("target", "table"), ("image_size", "folder")):
        if getattr(recipe, field) is not None and kind != needs:
            raise InputError(f"{field} is for a {needs}, got {kind}: leave it out.")
    if clean is not None and (kind != "arrays" or isinstance(data, tuple | list)):
        raise InputError("clean= is for a Dataset that transforms its samples; other data is clean already.")
    task = None if recipe.task is None else parse(recipe.task)[0]
    if kind == "public":
        return load_public(recipe.dataset, data_dir)
    if kind == "folder":
        from gradlex.data.files import load_folder

        return load_folder(path, recipe.image_size or 32)
    if kind == "archive":
        from gradlex.data.files import load_archive

        return load_archive(path, task)
    if kind == "table":
        from gradlex.data.rows import load_table

        return load_table(path if data is None else data, recipe.target, task)
    if not isinstance(data, tuple | list):
        return _dataset(data, clean), None, None
    if len(data) != 2:
        raise InputError(
            f"data given as arrays must be the pair (x, y), got {len(data)} of them: several inputs go into one tuple, "
            "((x1, x2), y), and a list of samples into a Dataset."
        )
    return ArraySamples(checked_inputs(data[0]), checked_targets(data[1])), None, None


def read_inputs(given: Any, described: Mapping[str, Any]) -> tuple[list[str], Tensor]:
    """The inputs of new samples, and their names.

    Args:
        given: The path of an image, a folder of images, a .npz archive with an array x, or a table; or a DataFrame.
        described: What run.json holds of the data (`Parts.description`), which says how tables are encoded.
    """
    shape, encoding, names = described.get("input_shape"), described.get("encoding"), None
    if encoding is not None:
        from gradlex.data.rows import encode_inputs, read_table

        x = encode_inputs(read_table(given, encoding), encoding)
    else:
        from gradlex.data.files import images_or_features, read_archive, read_images

        path = Path(given).expanduser()
        if path.suffix.lower() == ".npz":
            found = read_archive(path)
            if "x" not in found:
                raise InputError(f"{printable(path)} has no array x; it holds {printable(', '.join(found))}.")
            x = images_or_features(found["x"], f"{printable(path)}: x")
            x = x if described.get("bytes", True) else x.float()
        else:
            names, x = read_images(path, shape[-1] if shape else 32)
    if shape is not None and list(x.shape[1:]) != shape:
        raise InputError(f"the samples have the shape {tuple(x.shape[1:])}, the run was trained on {tuple(shape)}.")
    return names or [str(number) for number in range(len(x))], x


def read_samples(given: Any, described: Mapping[str, Any]) -> Samples:
    """Samples to evaluate a finished run on: the test part of data by name that has its own, else all samples.

    Args:
        given: Data in any form that `prepare` takes, or a dataset's name or path.
        described: What run.json holds of the data (`Parts.description`).
    """
    encoding, names = described.get("encoding"), described.get("class_names")
    if encoding is not None:
        from gradlex.data.rows import read_rows

        return read_rows(given, encoding).encoded(encoding)
    if not isinstance(given, str | os.PathLike):
        samples: Samples = load(given, Recipe())[0]
        return samples
    size = described["input_shape"][-1] if kind_of(str(given)) == "folder" else None
    train, test, found = load(None, Recipe(dataset=str(given), image_size=size))
    if names and found and list(found) != names:
        raise InputError(
            f"{printable(given)} has the classes {printable(', '.join(found))}, the run was trained on "
            f"{printable(', '.join(names))}."
        )
    samples = test or train
    return samples


def _dataset(data: Any, clean: Any) -> Samples:
    try:
        samples = DatasetSamples(data, clean)
        varies = samples.clean_varies
    except InputError:
        raise
    except Exception as error:  # whatever a user's Dataset may raise
        raise InputError(
            "data must be the pair (x, y), a map-style Dataset, a DataLoader over one or a DataFrame, got "
            f"{type(data).__name__}, whose first samples cannot be read: {printable(repr(error))}."
        ) from error
    if varies:
        warn(
            f"{type(data).__name__} transforms its samples at random, so selection and evaluation would see augmented "
            "ones: give the same samples without random transforms as clean=."
        )
    return samples
