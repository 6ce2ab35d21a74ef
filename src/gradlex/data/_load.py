"""From a recipe's dataset to arrays."""

from __future__ import annotations

import os
from pathlib import Path

from gradlex.data._arrays import Arrays, checked_arrays, escaped
from gradlex.data._registry import DATASETS
from gradlex.errors import InputError, unknown_name
from gradlex.recipe import Recipe

_TABLES = (".csv", ".parquet")


def default_data_dir() -> Path:
    """The user's cache folder for downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradlex"


def is_folder(dataset: str) -> bool:
    """Whether a recipe's dataset is a folder of images; a name that is known goes first."""
    return dataset not in DATASETS and os.path.isdir(os.path.expanduser(dataset))


def is_table(dataset: str) -> bool:
    """Whether a recipe's dataset is a CSV or Parquet file; a name that is known goes first."""
    return dataset not in DATASETS and Path(dataset).suffix.lower() in _TABLES and not is_folder(dataset)


def load(recipe: Recipe, data_dir: Path | None = None, *, download: bool = True) -> Arrays:
    """The recipe's dataset, with a test part, cut to `train_size`, and checked.

    What is not on this machine is downloaded, or refused (MissingDataError).

    Examples:
        >>> import gradlex
        >>> arrays = gradlex.data.load(gradlex.Recipe(dataset="digits", train_size=100))
        >>> arrays.x_train.shape, arrays.x_test.shape
        ((100, 8, 8, 1), (359, 8, 8, 1))
    """
    if recipe.train_size is not None and recipe.train_size < 2:
        raise InputError(f"train_size must be at least 2, got {recipe.train_size}.")
    if is_table(recipe.dataset):
        from gradlex.data._table import table_arrays  # noqa: PLC0415  # each source imports its own library

        return table_arrays(
            Path(os.path.expanduser(recipe.dataset)),
            recipe,
        )
    if recipe.target is not None:
        raise InputError(
            f"target names a column of a table (.csv, .parquet); {escaped(recipe.dataset)} is none: leave it out."
        )
    arrays = _source(recipe, data_dir or default_data_dir(), download=download)
    checked = checked_arrays(arrays, source=recipe.dataset)
    return checked.with_test(recipe.test_fraction).part(recipe.train_size)


def _source(recipe: Recipe, data_dir: Path, *, download: bool) -> Arrays:
    name, path = recipe.dataset, Path(os.path.expanduser(recipe.dataset))
    if is_folder(name):
        from gradlex.data._image_folder import image_folder  # noqa: PLC0415

        return image_folder(path, recipe.image_size or 32)
    if recipe.image_size is not None:
        raise InputError(
            f"image_size resizes a folder's images; {escaped(name)} has a size of its own. Leave it out."
        )
    if name in DATASETS:
        from gradlex.data import _public_datasets  # noqa: PLC0415

        arrays: Arrays = getattr(_public_datasets, name)(data_dir, download=download)
        return arrays
    if path.suffix.lower() == ".npz":
        from gradlex.data._archive import archive  # noqa: PLC0415

        return archive(path, recipe.task)
    if os.sep in name or path.suffix or os.path.exists(path):
        raise InputError(
            f"{escaped(name)} is neither an existing folder of images nor an existing .npz archive or table: check the "
            "path."
        )
    raise unknown_name("dataset", name, DATASETS)
