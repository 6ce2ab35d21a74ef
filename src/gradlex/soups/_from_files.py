"""A soup of files by names, as the command makes it: model and data as `gradlex train` takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from annotated_types import Gt, Lt

from gradlex._checks import check
from gradlex.data import Arrays, ArraySamples, Normalization, Samples, Subset, load, parse_augment, stratified
from gradlex.errors import InputError
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs import RunFolder, array_samples, build_model, dataset_of, load_normalization, stored_recipe
from gradlex.selection import Cases
from gradlex.soups._checkpoints import open_checkpoint
from gradlex.soups._methods import METHODS
from gradlex.soups._soup import Soup, mix
from gradlex.tasks import infer_task, make_task

_FRACTION = 0.2


@dataclass(frozen=True, kw_only=True)
class SoupOfFiles:
    """A soup, and which samples chose and reported."""

    soup: Soup
    parts: str = field()
    """A sentence for people."""


def soup_files(
    checkpoints: Sequence[str | Path],
    *,
    model: str | None = None,
    width: float = 1.0,
    dataset: str | None = None,
    validation: str | None = None,
    validation_fraction: float | None = None,
    by_class: bool = False,
    methods: Sequence[str] = tuple(METHODS),
    recalibrate: int = 50,
    augment: str | None = None,
    device: str | None = None,
    data_dir: Path | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> SoupOfFiles:
    """Mix files or run folders of one network by names of a model and of data.

    A share of the data's test part chooses (`validation_fraction`, by default 0.2, each class by its share), or the
    whole test part of other data (`validation`); the rest of the test part reports. Model, data and normalization are
    those of the first checkpoint where it is a run folder of gradlex, and so is the augmentation of the batches that
    recalibrate. With `by_class` the classes are the cases.

    Examples:
        >>> from gradlex.soups import soup_files
        >>> made = soup_files(["runs/a", "runs/b"], methods=["best", "uniform"])
        >>> made.parts
        '72 of the 359 test samples of digits choose, 287 others report'
        >>> made.soup.mixtures["uniform"].weights
        {'a': 0.5, 'b': 0.5}
    """
    check("validation_fraction", Annotated[float, Gt(0), Lt(1)] | None, validation_fraction)
    if validation is not None and validation_fraction is not None:
        raise InputError("validation names the data that chooses: leave validation_fraction out.")
    if not checkpoints:
        raise InputError("name at least two checkpoints.")
    recipe, normalization = _first_run(Path(checkpoints[0]), model, width, dataset)
    opened = [open_checkpoint(path) for path in checkpoints]
    arrays = load(recipe, data_dir)
    scale = normalization or Normalization.of(arrays.x_train)
    chooses: Samples
    reports: Samples
    if validation is not None:
        other = load(Recipe(dataset=validation), data_dir)
        if (other.input_shape, other.num_classes) != (arrays.input_shape, arrays.num_classes):
            raise InputError(
                f"{validation} has samples of shape {other.input_shape} and {other.num_classes} classes, "
                f"{recipe.dataset} has {arrays.input_shape} and {arrays.num_classes}: they must be alike."
            )
        chooses, reports = _test(other, scale, validation), _test(arrays, scale, recipe.dataset)
        parts = f"all {len(chooses):,} test samples of {validation} choose"
    else:
        whole = _test(arrays, scale, recipe.dataset)
        fraction = validation_fraction or _FRACTION
        size = round(len(whole) * (1 - fraction))
        kept, held = stratified(whole.targets.numpy(), size, f"validation_fraction {fraction:g}")
        if not len(held):
            raise InputError(
                f"validation_fraction {fraction:g} of {len(whole)} test samples is none: give more."
            )
        chooses, reports = Subset(whole, held), Subset(whole, kept)
        parts = f"{len(held):,} of the {len(whole):,} test samples of {recipe.dataset} choose"
    train = array_samples(arrays.x_train, arrays.y_train, scale)
    made = mix(
        opened,
        build_model(recipe, arrays.input_shape, arrays.num_classes),
        validation=chooses,
        test=reports,
        train=train.with_augment(parse_augment(augment or recipe.augment or "none")),
        task=make_task(recipe.task or infer_task(torch.from_numpy(arrays.y_train)), recipe.task_options),
        methods=methods,
        cases=Cases(groups=np.asarray(chooses.targets)) if by_class else None,
        recalibrate=recalibrate,
        device=device,
        seed=seed,
        out=out,
    )
    return SoupOfFiles(soup=made, parts=f"{parts}, {len(reports):,} others report")


def _first_run(
    path: Path, model: str | None, width: float, dataset: str | None
) -> tuple[Recipe, Normalization | None]:
    """Model, data and normalization of the first checkpoint if it is a run folder; what is given goes before."""
    if not (path / "recipe.json").is_file():
        if model is None or dataset is None:
            missing = "model" if model is None else "dataset"
            raise InputError(
                f"{path} does not say which network and data it belongs to: give --{missing}, or run folders."
            )
        return Recipe(model=model, width=width, dataset=dataset), None
    folder = RunFolder(path)
    stored, data = stored_recipe(folder)
    if GIVEN in (stored.model, stored.task):
        raise InputError(
            f"{path} was trained from the library on a network of its own: use gradlex.soup with that network."
        )
    own = dataset_of(stored, data, folder) if dataset is None else dataset
    same = dataset is None
    recipe = Recipe(
        model=model or stored.model,
        width=stored.width if model is None else width,
        dataset=own,
        train_size=stored.train_size if same else None,
        test_fraction=stored.test_fraction if same else None,
        image_size=stored.image_size if same else None,
        task=stored.task,
        task_options=stored.task_options,
        augment=None if stored.augment == GIVEN else stored.augment,
    )
    return recipe, load_normalization(path)


def _test(arrays: Arrays, scale: Normalization, name: str) -> ArraySamples:
    if arrays.x_test is None or arrays.y_test is None:
        raise InputError(f"{name} has no test part.")
    return array_samples(arrays.x_test, arrays.y_test, scale)
