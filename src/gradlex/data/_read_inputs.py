"""Inputs without targets, for prediction: an image, a folder of images, an array in a .npz archive, or a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradlex.data._archive import read_inputs as read_archive
from gradlex.data._arrays import escaped
from gradlex.data._load import is_table
from gradlex.data._table import TableEncoding
from gradlex.errors import InputError


def read_inputs(
    path: Path, input_shape: Sequence[int], table: TableEncoding | None = None
) -> tuple[list[str], Tensor]:
    """What each sample is called, and all samples as a network of this input shape takes them, not normalized.

    Images are resized as a dataset's are, and read as RGB; a table's rows become samples as those of the run's `table`.
    """
    path = Path(os.path.expanduser(path))
    if is_table(str(path)):
        if table is None:
            raise InputError(
                f"{escaped(path)} is a table, and this run was not trained on one: give an image, a folder of images "
                "or a .npz archive."
            )
        rows = torch.from_numpy(table.features(path))
        return [str(number) for number in range(len(rows))], rows
    if path.suffix.lower() == ".npz":
        x = read_archive(path)
        inputs = torch.from_numpy(np.moveaxis(x, -1, 1).copy() if x.ndim == 4 else x)
        return [str(number) for number in range(len(inputs))], inputs
    from gradlex.data._image_folder import is_image, read_images  # noqa: PLC0415  # imports torchvision

    if not path.is_dir() and not is_image(path):
        raise InputError(
            f"{escaped(path)} is neither an image, nor a folder of images, nor a .npz archive or table: give one of "
            "them."
        )
    if len(input_shape) != 3 or input_shape[0] != 3 or input_shape[1] != input_shape[2]:
        raise InputError(
            f"images are read as (3, size, size), and this run was trained on {tuple(input_shape)}: give a .npz "
            "archive with an array x."
        )
    names, images = read_images(path, input_shape[1])
    return names, torch.from_numpy(np.moveaxis(images, -1, 1).copy())
