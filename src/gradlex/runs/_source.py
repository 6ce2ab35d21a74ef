"""Source: where a run's model and data come from.

`Named` builds and loads what the recipe names, as the command does; `Given` takes an nn.Module and arrays, tensors or a
Dataset, as `gradlex.train` does. Neither resolves anything: that is `make_problem`'s.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gradlex.data import (
    DATASETS,
    OWN,
    Arrays,
    ArraySamples,
    Augmentation,
    DatasetInfo,
    Normalization,
    Output,
    Samples,
    dataset_info,
    fingerprint,
    is_folder,
    learnt_from,
    load,
    make_samples,
)
from gradlex.engine import seeded
from gradlex.errors import InputError, unknown_name
from gradlex.models import MODELS, build
from gradlex.randomness import torch_seed
from gradlex.recipe import GIVEN, Recipe
from gradlex.selection import Cases, check_cases
from gradlex.tasks import Task, checked_task, infer_task, make_task, outputs_for

_FIRST = 16  # samples of a Dataset that tell which task fits


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a source provides, on the host."""

    model: nn.Module
    task: Task
    train: Samples
    test: Samples | None
    validation: Samples | None = None
    """Where the source itself has some; otherwise the recipe may take a part of the training samples."""
    data: dict[str, Any]
    """What recipe.json says of the data: fingerprint, sizes, classes, normalization."""
    normalization: Normalization | None
    info: DatasetInfo
    """The settings for what the recipe leaves open."""
    gains_from_bfloat16: bool
    output: Output | None = None
    """Which of the model's outputs is learnt, where it returns several."""
    fields: dict[str, Any] = field(default_factory=dict)
    """What the data decides of the recipe."""
    notes: tuple[str, ...] = ()
    """What a person should know about the data."""
    cases: Cases | None = None
    """What the training samples are as cases, where that is more than a case each."""
    test_groups: npt.NDArray[Any] | None = None
    """The group of each test sample: the worst group is reported."""


class Source(Protocol):
    """Where a run's model and data come from."""

    def marked(self, recipe: Recipe) -> Recipe:
        """The recipe as this source has it; refused where they contradict each other."""
        ...

    def task(self, recipe: Recipe) -> Task | None:
        """What is learnt; None where it follows from the data."""
        ...

    @property
    def augment(self) -> Augmentation | None:
        """An augmentation that was passed in as an object."""
        ...

    def load(self, recipe: Recipe) -> Material:
        """Model and samples, and the task that fits them where none is named."""
        ...


@dataclass(frozen=True, kw_only=True)
class Named:
    """The dataset and the model by the recipe's names.

    Examples:
        >>> import gradlex
        >>> from gradlex.runs import Execution, Named, start
        >>> recipe = gradlex.Recipe(dataset="digits", train_size=100, model="mlp", generations=1, population=2)
        >>> start(Named(download=False), recipe, Execution(workers=1)).recipe.dataset
        'digits'
    """

    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""
    download: bool = True
    arrays: Arrays | None = None
    """The recipe's data where it has been loaded already."""

    @property
    def augment(self) -> None:
        """None: augmentations have names here too."""

    def marked(self, recipe: Recipe) -> Recipe:
        """The recipe itself; refused where it stands for objects, or names no model."""
        if GIVEN in (recipe.dataset, recipe.model, recipe.augment, recipe.task):
            raise InputError(
                "this run was started from the library with objects of its own, which are not stored: "
                "call gradlex.train with the same model and data."
            )
        if ":" not in recipe.model and recipe.model not in ("auto", *MODELS):
            raise unknown_name("model", recipe.model, MODELS)
        return recipe

    def task(self, recipe: Recipe) -> Task | None:
        """The task that the recipe names; that of images by name is known before they are there."""
        if recipe.task is None and (recipe.dataset in DATASETS or is_folder(recipe.dataset)):
            return make_task("classification", recipe.task_options)
        return None if recipe.task is None else make_task(recipe.task, recipe.task_options)

    def load(self, recipe: Recipe) -> Material:
        """Load the data and build the model with its initial weights; writes nothing but downloads."""
        arrays = self.arrays or load(recipe, self.data_dir, download=self.download)
        if arrays.encoding is None:
            left = learnt_from(recipe, len(arrays.x_train))
            whole = len(left) == len(arrays.x_train)
            normalization = Normalization.of(arrays.x_train if whole else arrays.x_train[left])
        else:  # it has standardised numbers already, and left categories as they are
            features = arrays.x_train.shape[1]
            normalization = Normalization(mean=(0.0,) * features, std=(1.0,) * features)
        test = None
        if arrays.x_test is not None and arrays.y_test is not None:
            test = array_samples(arrays.x_test, arrays.y_test, normalization)
        size = arrays.input_shape[-1] if is_folder(recipe.dataset) else None
        targets = torch.from_numpy(arrays.y_train)
        task, fields = _fitting(self.task(recipe), recipe, targets, labelled=arrays.labelled)
        if recipe.model == "auto":
            fields["model"] = "small-cnn" if len(arrays.input_shape) == 3 else "mlp"
            recipe = recipe.replace(model=fields["model"])
        outputs = outputs_for(task, targets) or (arrays.num_classes if arrays.labelled else 1)
        return Material(
            task=task,
            model=build_model(recipe, arrays.input_shape, outputs),
            train=array_samples(arrays.x_train, arrays.y_train, normalization),
            test=test,
            data={
                "fingerprint": arrays.fingerprint(),
                "test_fingerprint": arrays.test_fingerprint(),
                "train_samples": len(arrays.y_train),
                "test_samples": 0 if arrays.y_test is None else len(arrays.y_test),
                "input_shape": list(arrays.input_shape),
                "outputs": outputs,
                "num_classes": arrays.num_classes if arrays.labelled else None,
                "class_names": arrays.class_names,
                "normalization": asdict(normalization),
                "table": None if arrays.encoding is None else arrays.encoding.to_dict(),
            },
            normalization=normalization,
            info=dataset_info(recipe.dataset),
            gains_from_bfloat16=recipe.model not in MODELS or MODELS[recipe.model].gains_from_bfloat16,
            fields={"test_fraction": arrays.test_fraction, "image_size": size, **fields},
            notes=arrays.notes,
            cases=None if arrays.groups_train is None else Cases(groups=arrays.groups_train),
            test_groups=arrays.groups_test,
        )


@dataclass(frozen=True, kw_only=True)
class Given:
    """A model and data that were passed in as objects. The caller's model stays as it is: a copy is trained.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> from gradlex.runs import Execution, Given, start
        >>> source = Given(model=torch.nn.Linear(4, 2), data=(torch.randn(40, 4), torch.arange(40) % 2))
        >>> run = start(source, gradlex.Recipe(generations=1, batch_size=8), Execution(workers=1))
        >>> run.recipe.model  # an object, which recipe.json cannot hold
        'given'
    """

    model: nn.Module
    data: Any
    test: Any = None
    validation: Any = None
    clean: Any = None
    augment: Augmentation | None = None
    own_task: Task | str | None = None
    cases: Cases | None = None
    test_groups: Any = None
    output: Output | None = None
    loader_workers: int = 0

    def marked(self, recipe: Recipe) -> Recipe:
        """The recipe with what is passed in as an object marked as given; refused where it names something else."""
        if not isinstance(recipe, Recipe):
            raise InputError(f"recipe must be a gradlex.Recipe, got {type(recipe).__name__}.")
        for name in ("model", "dataset"):
            if getattr(recipe, name) not in (GIVEN, getattr(Recipe(), name)):
                raise InputError(
                    f"{name} {getattr(recipe, name)!r} in the recipe is for the command: here what is passed in is "
                    "trained, so leave it out."
                )
        for name in ("train_size", "test_fraction", "image_size"):
            if getattr(recipe, name) is not None:
                raise InputError(
                    f"{name} belongs to data by name, got {getattr(recipe, name)}: pass exactly the samples to use."
                )
        if self.validation is not None and recipe.validation_fraction is not None:
            raise InputError(
                f"the validation part is given twice: as validation= and as validation_fraction "
                f"{recipe.validation_fraction} in the recipe."
            )
        if recipe.width != 1.0:
            raise InputError(
                f"width belongs to a model by name, got {recipe.width}: pass exactly the model to use."
            )
        if self.augment is not None and recipe.augment not in (None, GIVEN):
            raise InputError(
                f"augment is given twice: as a callable and as {recipe.augment!r} in the recipe."
            )
        if self.own_task is not None and recipe.task not in (None, GIVEN, self.own_task):
            raise InputError(f"the task is given twice: as task= and as {recipe.task!r} in the recipe.")
        task = recipe.task
        if self.own_task is not None:
            task = self.own_task if isinstance(self.own_task, str) else GIVEN
        augment = recipe.augment if self.augment is None else GIVEN
        return recipe.replace(dataset=GIVEN, model=GIVEN, augment=augment, task=task)

    def task(self, recipe: Recipe) -> Task | None:
        """The task object, or the one that the recipe names; None where it follows from the targets."""
        if self.own_task is not None and not isinstance(self.own_task, str):
            if recipe.task_options:
                raise InputError("task_options are for a task by name: give the task object its own.")
            return checked_task(self.own_task)
        if recipe.task == GIVEN:
            raise InputError("this run's task was an object, which is not stored: give it again as task=...")
        return None if recipe.task is None else make_task(recipe.task, recipe.task_options)

    def load(self, recipe: Recipe) -> Material:
        """Check and combine what was passed in."""
        train, normalization = make_samples(
            self.data,
            clean=self.clean,
            augment=self.augment,
            learns_from=functools.partial(learnt_from, recipe) if recipe.validation_fraction else None,
            loader_workers=self.loader_workers,
        )
        test, validation = (
            None
            if part is None
            else make_samples(
                part,
                normalization=normalization,
                loader_workers=0 if isinstance(part, tuple | list) else self.loader_workers,
            )[0]
            for part in (self.test, self.validation)
        )
        parts = (self.data, self.test, *(() if self.validation is None else (self.validation,)))
        first = np.arange(min(_FIRST, len(train)))  # of a Dataset, whose targets are not all known
        targets = train.clean(first)[1] if train.targets is None else train.targets
        task, fields = _fitting(self.task(recipe), recipe, targets)
        if self.cases is not None:
            check_cases(self.cases)
        return Material(
            model=_copied(self.model),
            task=task,
            fields=fields,
            train=train,
            test=test,
            validation=validation,
            data={
                "fingerprint": self._fingerprint(fingerprint(*parts)),
                "train_samples": len(train),
                "test_samples": 0 if test is None else len(test),
                "normalization": None if normalization is None else asdict(normalization),
            },
            normalization=normalization,
            info=OWN,
            gains_from_bfloat16=True,
            cases=self.cases,
            test_groups=None if test is None else _test_groups(self.test_groups, len(test)),
            output=self.output,
        )

    def _fingerprint(self, found: str | None) -> str | None:
        """That of the data, with the numbers that say what its cases are."""
        if found is None or (self.cases is None and self.test_groups is None):
            return found
        given = [] if self.cases is None else [self.cases.groups, self.cases.weights, self.cases.priority]
        return hashlib.sha256(
            f"{found}{[_listed(each) for each in (*given, self.test_groups)]}".encode()
        ).hexdigest()


def _listed(given: Any) -> Any:
    return (
        dict(given) if isinstance(given, Mapping) else None if given is None else np.asarray(given).tolist()
    )


def _test_groups(given: Any, samples: int) -> npt.NDArray[Any] | None:
    if given is None:
        return None
    groups = np.asarray(given)
    if groups.shape != (samples,) or groups.dtype.kind not in "biuUS":
        raise InputError(
            f"test_groups must be a whole number or name for each of the {samples} test samples, got {groups.dtype} of "
            f"shape {groups.shape}."
        )
    return groups


def _fitting(
    task: Task | None, recipe: Recipe, targets: Tensor, *, labelled: bool = True
) -> tuple[Task, dict[str, Any]]:
    """The task that is named, or the one that fits the targets, and what the recipe is to say of it."""
    if recipe.task is not None and task is not None:
        return task, {}
    # A table's whole numbers need not be labels.
    name = "regression" if targets.ndim == 1 and not labelled else infer_task(targets)
    return make_task(name, recipe.task_options), {"task": name}


def build_model(recipe: Recipe, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The recipe's model for samples of this shape, with its initial weights."""
    images = len(shape) == 3
    info = MODELS.get(recipe.model)
    if info is not None and info.smallest_image and not images:
        raise InputError(f"{recipe.model} needs images; this data has {shape[0]} plain features: use mlp.")
    flat = info is not None and not info.smallest_image
    with seeded(torch_seed(recipe.seed, "initialisation"), torch.device("cpu")):
        try:
            return build(
                recipe.model,
                num_classes=num_classes,
                in_channels=math.prod(shape) if flat else shape[0],
                image_size=min(shape[1:]) if images else None,
                width=recipe.width,
            )
        except (MemoryError, RuntimeError, TypeError, OverflowError) as error:  # torch's words for too large
            if info is None:  # a model of the user's, which says itself what is wrong
                raise
            raise InputError(
                f"{recipe.model} of width {recipe.width:g} is too large to be made here: choose a smaller width."
            ) from error


def array_samples(x: Any, y: Any, normalization: Normalization) -> ArraySamples:
    """Samples of a dataset's arrays, images as networks see them: (N, channels, height, width)."""
    inputs = torch.from_numpy(x)
    return ArraySamples(
        inputs.permute(0, 3, 1, 2) if inputs.ndim == 4 else inputs,
        torch.from_numpy(y),
        normalization=normalization,
    )


def _copied(model: Any) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model must be an nn.Module, got {model!r:.80}: gradlex.models.build makes one by its name."
        )
    try:
        own = copy.deepcopy(model)
    except Exception as error:  # torch's words for a tensor that is computed, or a user's for anything
        raise InputError(f"the model cannot be copied: {type(error).__name__}: {error}") from error
    if not all(parameter.is_leaf for parameter in own.parameters()):
        raise InputError(
            f"a copy of the model ({type(model).__name__}) has parameters that cannot be trained: give it before "
            "torch.jit.script or whatever made it so, or use Recipe(compile=True)."
        )
    return own
