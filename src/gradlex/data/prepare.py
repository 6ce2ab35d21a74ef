"""The one place that splits data into training, validation and test samples, cuts and normalizes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlex._text import parse
from gradlex.data.augment import parse_augment
from gradlex.data.datasets import DATASETS, OWN, DatasetInfo
from gradlex.data.load import kind_of, load
from gradlex.data.normalization import Normalization
from gradlex.data.samples import Indices, Samples, fingerprint
from gradlex.errors import InputError
from gradlex.randomness import stream
from gradlex.recipe import GIVEN, Recipe

_PART_SEED = 20220125  # no run's seed, so that runs with different seeds and methods can be compared


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

    def description(self) -> dict[str, Any]:
        """What run.json holds of the data, as plain values; `read_inputs` and `read_samples` need it."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        found = {
            "name": Path(self.recipe.dataset).name,
            "fingerprint": self.fingerprint,
            "test_fingerprint": fingerprint(self.test),
            "class_names": self.class_names,
            "encoding": self.encoding,
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
        data: (x, y) as arrays or tensors, where x may be a tuple or dict of them; a map-style Dataset of
            (input, target), or a DataLoader, of which the dataset and collate_fn are used; a pandas DataFrame, whose
            column `recipe.target` is predicted. None is the recipe's dataset.
        recipe: Says which data by name, how it is split, and how training batches are augmented.
        test: Samples that are used only for reporting, in the same form as the data.
        validation: Samples to decide by, in the same form, in place of the recipe's validation_fraction.
        clean: The same samples as the data, as a Dataset without random transforms, for selection and evaluation.
        augment: A function (batch, rng) -> batch, such as `crop_flip(4)`, for training.
        data_dir: Where downloaded datasets are kept (default: the user's cache folder).

    Examples:
        >>> import torch
        >>> import gradlex
        >>> images, labels = torch.randint(256, (50, 3, 8, 8), dtype=torch.uint8), torch.arange(50) % 5
        >>> parts = gradlex.data.prepare((images, labels), gradlex.Recipe(test_fraction=0.2))
        >>> len(parts.train), parts.test.targets.bincount().tolist()  # stratified
        (40, [2, 2, 2, 2, 2])
    """
    train, held, names = load(data, recipe, clean, data_dir)
    # Files and tables get a test part and are normalized; other data that is passed in is taken as it is.
    passed_in, recipe = data is not None and isinstance(train, Samples), _located(recipe, data)
    info = OWN if data is not None else DATASETS.get(recipe.dataset, OWN)

    def other(name: str, given: Any) -> Any:
        """A test or validation part that was passed in."""
        try:
            if isinstance(train, Samples):
                return load(given, Recipe())[0]
            from gradlex.data.tables import read_rows

            return read_rows(given, {"target": recipe.target, "class_names": names})
        except InputError as error:
            raise InputError(f"in the {name} part: {error}") from error
