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
from gradlex.data.inputs import leaves
from gradlex.data.load import kind_of, load
from gradlex.data.normalization import Normalization
from gradlex.data.samples import ArraySamples, Indices, Samples, fingerprint
from gradlex.errors import InputError, warn
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
    train: Any  # samples, or rows of a table, which become samples below
    held: Any
    train, held, names = load(data, recipe, clean, data_dir)
    files = data is None or not isinstance(train, Samples)  # what else is passed in is taken as it is

    def part_of(given: Any, name: str) -> Any:
        try:
            if isinstance(train, Samples):
                return load(given, Recipe())[0]
            from gradlex.data.rows import read_rows

            return read_rows(given, {"target": recipe.target, "class_names": names})
        except InputError as error:
            raise InputError(f"in the {name} part: {error}") from error

    # Cut off a test part, and a part to train on: the same for every seed.
    plain, y = recipe.task is None or parse(recipe.task)[0] == "classification", train.targets
    whole_numbers = y is not None and y.ndim == 1 and y.dtype == torch.int64
    labeled, fraction, total = whole_numbers and (plain or names is not None), recipe.test_fraction, len(train)
    held = held if test is None else part_of(test, "test")
    if held is not None and fraction is not None:
        raise InputError(f"this data has a test part of its own, got test_fraction {fraction:g}: leave it out.")
    if held is None and (fraction or files):
        fraction = fraction or 0.2
        size = total - round(total * fraction)
        kept, rest = cut(train.targets if labeled else None, total, size, f"test_fraction {fraction:g}")
        train, held = train.take(kept), train.take(rest)
    if recipe.train_size not in (None, len(train)):
        size, asked = recipe.train_size or 0, f"train_size {recipe.train_size}"
        train = train.take(cut(train.targets if labeled else None, len(train), size, asked)[0])

    # Set a validation part apart, before anything is learned from the other samples.
    everything, checked = train, None if validation is None else part_of(validation, "validation")
    if recipe.validation_fraction is not None:
        if checked is not None:
            raise InputError("the validation part is given twice: as validation= and as validation_fraction.")
        kept, rest = hold_out(recipe.seed, len(train), recipe.validation_fraction)
        train, checked = train.take(kept), train.take(rest)

    encoding = None if isinstance(train, Samples) else train.encoding(str(recipe.target), names)
    found: list[Any] = [train, checked, held, everything]
    if encoding is not None:
        found = [None if part is None else part.encoded(encoding) for part in found]
    own, checked, held, whole = found
    _check_parts(own, checked, held, whole.targets if labeled else None)
    normalizes = encoding is None and (files or _in_bytes(own))
    inputs = own.clean(np.arange(1))[0]
    shape: Any = tuple(inputs.shape[1:]) if isinstance(inputs, Tensor) else None

    info = OWN if data is not None else DATASETS.get(recipe.dataset, OWN)
    crops = data is None and info is OWN and _in_bytes(own) and len(shape) == 3 and shape[0] == 3
    text = recipe.augment or (f"crop{max(1, min(shape[1:]) // 8)},flip" if crops else info.augment)
    own, task = _augmented(own, text, augment, recipe.seed), recipe.task
    if not normalizes and own.targets is not None:
        highest = max((float(x.max()) for x in leaves(own.stored) if x.ndim == 4 and x.is_floating_point()), default=0)
        if highest > 20:
            warn(f"the images are floats up to {highest:g}, which are not normalized: divide by 255, or give bytes.")
    if task is None and files:
        task = "classification" if labeled else "regression" if own.targets.ndim == 1 else None
    return Parts(
        train=own,
        validation=checked,
        test=held,
        recipe=recipe.replace(
            dataset=recipe.dataset if data is None else GIVEN,
            test_fraction=fraction,
            image_size=shape[-1] if data is None and kind_of(recipe.dataset) == "folder" else None,
            augment=text if augment is None else GIVEN,
            batch_size=recipe.batch_size or info.batch_size,
            task=task,
        ),
        info=info,
        class_names=names,
        normalization=Normalization.of(own.stored.cpu().numpy()) if normalizes else None,
        encoding=encoding,
        sample_shape=shape,
        targets=whole.targets,
        fingerprint=fingerprint(whole, held, *([] if validation is None else [checked])),
    )


def _augmented(samples: Any, text: str, given: Any, seed: int) -> Any:
    """The samples with the augmentation that was given, or that the text names; the first batch is tried."""
    if given is None and text == GIVEN:
        raise InputError("augment was a function, which isn't stored: give it again as augment=.")
    samples = samples.replace(augment=parse_augment(text) if given is None else given)
    try:
        samples.augmented(np.arange(min(8, len(samples))), stream(seed, "augmentation"))
    except Exception as error:  # whatever a user's function or Dataset may raise
        raise InputError(f"the first training batch cannot be made: {type(error).__name__}: {error}") from error
    return samples


def _kind(samples: Samples) -> str:
    """Whether arrays hold bytes, and the shape of a sample; a Dataset's samples may differ."""
    if not isinstance(samples, ArraySamples):
        return ""
    kinds = {torch.uint8: "bytes", torch.int64: "whole numbers"}
    return ", ".join(f"{kinds.get(x.dtype, 'fractions')} of shape {tuple(x.shape[1:])}" for x in leaves(samples.stored))


def _check_parts(train: Any, validation: Any, test: Any, labels: Tensor | None) -> None:
    """Raise an error for parts that don't go together, and for classes that can't be learned."""
    for name, part in (("validation", validation), ("test", test)):
        kinds = [] if part is None else [_kind(each) for each in (part, train)]
        if all(kinds) and len({*kinds}) > 1:
            raise InputError(f"the {name} part has {kinds[0]}, the training part {kinds[1]}: make them match.")
    if labels is not None:
        classes = set(labels.tolist())
        if len(classes) < 2:
            raise InputError(f"all training samples have the class {classes.pop()}: give at least two classes.")
        for name, part in (("validation", validation), ("test", test)):
            unknown = set() if part is None or part.targets is None else set(part.targets.tolist()) - classes
            if unknown:
                raise InputError(f"the {name} part has the class {min(unknown)}, which the training part doesn't have.")


def cut(labels: Tensor | None, total: int, size: int, asked: str) -> tuple[Indices, Indices]:
    """Indices of a random part of `size` samples and of the rest, each in order; by class if there are labels.

    Every class gives its share by largest remainders, and a rare one at least one sample, so that no class is lost.
    """
    found = np.zeros(total, dtype=np.int64) if labels is None else labels.cpu().numpy()
    classes, counts = np.unique(found, return_counts=True)
    if not max(2, len(classes)) <= size < total:
        raise InputError(
            f"{asked} leaves {size} of {total} samples for training: it needs at least two, one for "
            "each class, and fewer than all."
        )
    order = np.random.default_rng(_PART_SEED).permutation(total)
    share = counts * size / total
    quota = np.maximum(1, np.floor(share)).astype(np.intp)
    while quota.sum() < size:
        quota[np.argmax(share - quota)] += 1
    while quota.sum() > size:
        quota[np.argmin(np.where(quota > 1, share - quota, np.inf))] -= 1
    grouped = order[np.argsort(found[order], kind="stable")]
    members = np.split(grouped, np.cumsum(counts)[:-1])
    kept = np.concatenate([own[:taken] for own, taken in zip(members, quota, strict=True)])
    return np.sort(kept), np.setdiff1d(order, kept)


def hold_out(seed: int, total: int, fraction: float) -> tuple[Indices, Indices]:
    """Indices of the samples to learn from, and of the validation part, which depends on the run's seed."""
    held = round(fraction * total)
    if not 0 < held < total:
        raise InputError(
            f"validation_fraction {fraction:g} of {total} samples makes a part of {held}: both parts need samples."
        )
    order = stream(seed, "validation").permutation(total)
    return np.sort(order[held:]), np.sort(order[:held])


def _in_bytes(samples: Any) -> bool:
    """Whether these are images or features in bytes."""
    x = getattr(samples, "stored", None)
    return isinstance(x, Tensor) and x.dtype == torch.uint8 and x.ndim in (2, 4)
