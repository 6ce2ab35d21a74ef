"""Problem: a model, its data, its task and its resolved recipe. `make_problem` is the one place that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from gradlex.data import (
    Arrays,
    Augmentation,
    Normalization,
    Output,
    Samples,
    Subset,
    as_augmentation,
    is_own,
    learnt_from,
    load,
    mixes_targets,
    needs_images,
    parse_augment,
    validation_numbers,
    validation_samples,
)
from gradlex.engine import Folding, PopulationEngine, Team, Worker, check_stacked, seeded, settings
from gradlex.errors import InputError, refusing_as
from gradlex.evolve import Engine
from gradlex.models import without_weights
from gradlex.population import State, Steps, check_optimizer, freeze, steps_of
from gradlex.randomness import stream, torch_seed
from gradlex.recipe import FUNCTIONS, GIVEN, Recipe
from gradlex.runs._execution import Execution
from gradlex.runs._probe import Probe, check_takes, probe
from gradlex.runs._resolve import (
    Facts,
    bound_selection,
    by_groups,
    held_out_samples,
    on_cases,
    resolve,
    resolve_method,
)
from gradlex.runs._source import Material, Named, Source
from gradlex.runs._weights import load_weights
from gradlex.selection import Cases, Selection
from gradlex.tasks import Measure, Task, check_samples, learnt

EngineFactory: TypeAlias = Callable[[Worker, Team, Steps], Engine]
"""Makes the engine of one process: who trains the candidates, and how."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """All that a run trains and tests, with its resolved recipe."""

    recipe: Recipe
    model: nn.Module
    described: Cases | None
    """What the cases are, where that is more than a sample each."""
    test_groups: npt.NDArray[Any] | None
    train: Samples
    cases: Samples
    """What selection looks at: the training samples, or a part that is held out from them."""
    test: Samples | None
    validation: Samples | None
    """What early stopping and the choice of the final model look at; never trained on."""
    task: Task
    select: Selection
    steps: Steps
    engine: EngineFactory
    data: dict[str, Any]
    normalization: Normalization | None
    output: Output | None
    """Which of the model's outputs is learnt."""
    device: torch.device
    """Where it is to be computed; model and samples lie on the host until `to`."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The task's metrics and, where the test samples have groups, the primary one in the worst group."""
        own, primary = self.task.measures, self.task.measures[0]
        return (
            own if self.test_groups is None else (*own, replace(primary, name=f"worst_group_{primary.name}"))
        )

    def evaluate(self, worker: Worker, state: State) -> dict[str, float]:
        """The metrics of `measures` on the test samples."""
        assert self.test is not None
        metrics = worker.evaluate(state, self.test)
        if self.test_groups is None:
            return metrics
        primary, worst = self.task.measures[0], self.measures[-1]
        members = [np.flatnonzero(self.test_groups == group) for group in np.unique(self.test_groups)]
        values = [worker.evaluate(state, Subset(self.test, own))[primary.name] for own in members]
        return {**metrics, worst.name: min(values) if primary.higher_is_better else max(values)}

    def to(self, device: torch.device) -> Problem:
        """The same problem on a device, for one process; what is held out of the samples is not copied again."""
        train = self.train.to(device)
        return replace(
            self,
            model=self.model.to(device),
            train=train,
            cases=train if self.cases is self.train else self._beside(self.cases, train, device),
            test=None if self.test is None else self.test.to(device),
            validation=None if self.validation is None else self._beside(self.validation, train, device),
            device=device,
        )

    def _beside(self, part: Samples, train: Samples, device: torch.device) -> Samples:
        """A part on the device; one of the training samples' arrays shares them there."""
        own = self.train
        if isinstance(part, Subset) and isinstance(own, Subset) and part.samples is own.samples:
            assert isinstance(train, Subset)
            return Subset(train.samples, part.indices)
        return part.to(device)

    def with_recipe(self, recipe: Recipe) -> Problem:
        """The problem with another process's recipe, which goes before this one's."""
        train, cases = self.train, self.cases
        if recipe.augment not in (self.recipe.augment, GIVEN):
            train = train.with_augment(parse_augment(recipe.augment or "none"))
            cases = train if self.cases is self.train else cases
        for name in FUNCTIONS:  # a function stays this process's own
            if getattr(recipe, name) == GIVEN:
                recipe = recipe.replace(**{name: getattr(self.recipe, name)})
        own = self.steps[len(steps_of(self.recipe)) :]
        return replace(
            self,
            recipe=recipe,
            train=train,
            cases=cases,
            select=on_cases(bound_selection(recipe), self.described, len(cases), recipe),
            steps=(*steps_of(recipe), *own),
        )


def make_problem(
    source: Source,
    recipe: Recipe,
    *,
    execution: Execution,
    device: torch.device,
    fresh: bool = True,
    steps: Steps = (),
    engine: EngineFactory = PopulationEngine,
    notice: Callable[[str], None] = lambda text: None,
) -> Problem:
    """Load, probe and resolve, each once; what no run can do is refused here, before anything is written.

    `fresh` is False for a run that continues from a checkpoint: it needs no initial weights any more.
    """
    asked = recipe
    known = source.task(recipe)
    if known is not None:  # then what no run can do is refused before any data is loaded
        recipe = resolve_method(recipe, known)
    material = source.load(recipe if fresh else recipe.replace(model=without_weights(recipe.model)))
    for note in material.notes:
        notice(note)
    model, train, test = material.model, material.train, material.test
    if known is None:
        recipe = resolve_method(recipe, material.task)
    recipe = by_groups(recipe, asked, material.cases)
    select = bound_selection(recipe)
    found = _probed(material, recipe, device)
    task = found.task
    workers = execution.workers if execution.threads_per_worker and execution.workers != "auto" else None
    recipe = resolve(recipe.replace(**material.fields), _facts(material, found, device, workers))
    augment = _augmentation(source, recipe, train)
    train = train.with_augment(augment)
    if not found.channels_last:
        train, test = train.contiguous(), None if test is None else test.contiguous()
    if recipe.freeze is not None:
        freeze(model, recipe.freeze)
    check_optimizer(recipe, model, device.type)
    if recipe.fold_norm:
        Folding(model)  # refused where it cannot be
    if recipe.init_from is not None and fresh:
        load_weights(model, Path(recipe.init_from))
    held, described = case_samples(recipe, len(train)), material.cases
    if described is not None:
        described.resolve(len(train))
        described = described if held is None else described.take(held)
    check = _Check(task, found.outputs)
    train, cases, validation = _split(train.with_check(check), recipe)
    if is_own(augment):
        _try_augmentation(train, recipe, device)
    if execution.placement == "stacked":
        check_stacked(recipe, model, train, task, device, material.output)
    if material.validation is not None:
        own = material.validation if found.channels_last else material.validation.contiguous()
        validation = own.with_check(check)
    return Problem(
        recipe=recipe,
        described=described,
        test_groups=material.test_groups,
        model=model.cpu(),
        train=train,
        cases=cases,
        test=None if test is None else test.with_check(check),
        validation=validation,
        task=task,
        select=on_cases(select, described, len(cases), recipe),
        steps=(*steps_of(recipe), *steps),
        engine=engine,
        data={
            **material.data,
            "validation_samples": 0 if validation is None else len(validation),
            "task": learnt(task),
        },
        normalization=material.normalization,
        output=material.output,
        device=device,
    )


def _augmentation(source: Source, recipe: Recipe, samples: Samples) -> Augmentation | None:
    """What training batches are augmented by: an object that was passed in, or what the recipe names."""
    own = as_augmentation(source.augment) if recipe.augment == GIVEN else parse_augment(str(recipe.augment))
    if recipe.cases == "augmented" and mixes_targets(own):
        raise InputError(
            "cases 'augmented' cannot be mixed ones, which have two targets: leave mixup and cutmix out, or cases."
        )
    leaves = tree_leaves(samples.clean(np.arange(1))[0])
    if needs_images(own) and any(tensor.ndim != 4 for tensor in leaves):
        raise InputError(
            f"augment {recipe.augment!r} needs images (N, channels, height, width), got "
            f"{', '.join(str(('N', *tensor.shape[1:])) for tensor in leaves)}: use none."
        )
    return own


def _try_augmentation(samples: Samples, recipe: Recipe, device: torch.device) -> None:
    """Refuse an augmentation of the user's that fails on a batch of the first samples."""
    if device.type == "cpu":  # samples still lie on the host, and a function may be for another device alone
        with refusing_as("the augmentation"), settings(recipe), seeded(0, device):
            first = np.arange(min(recipe.require("batch_size"), len(samples)))
            samples.augmented(first, stream(recipe.seed, "augmentation"))


def _split(samples: Samples, recipe: Recipe) -> tuple[Samples, Samples, Samples | None]:
    """The samples to train on, the cases to select on, and the validation part; the last two may be held out."""
    validation, cases = validation_numbers(recipe, len(samples)), case_samples(recipe, len(samples))
    if cases is None:
        return samples, samples, None
    train = trained_samples(recipe, len(samples))
    trained = Subset(samples, train)
    return (
        trained,
        trained if np.array_equal(train, cases) else Subset(samples, cases),
        Subset(samples, validation) if len(validation) else None,
    )


def trained_samples(recipe: Recipe, num_samples: int) -> npt.NDArray[np.intp]:
    """Which of the data's training samples are trained on, by their numbers: neither held-out cases nor validation."""
    validation, cases = validation_numbers(recipe, num_samples), case_samples(recipe, num_samples)
    held = cases is not None and held_out_samples(recipe, num_samples - len(validation)) > 0
    apart = np.concatenate([validation, cases]) if cases is not None and held else validation
    return np.setdiff1d(np.arange(num_samples), apart)


def case_samples(recipe: Recipe, num_samples: int) -> npt.NDArray[np.intp] | None:
    """Which of the data's training samples the cases are, by their numbers; None where all are."""
    left = learnt_from(recipe, num_samples)
    held = held_out_samples(recipe, len(left))
    if held == 0:
        return left if len(left) < num_samples else None
    return left[np.sort(stream(recipe.seed, "held_out").permutation(len(left))[:held])]


@dataclass(frozen=True)
class _Check:
    """A task's check of the batches of a Dataset, whose samples cannot all be looked at beforehand."""

    task: Task
    outputs: Any

    def __call__(self, inputs: Any, targets: Any) -> None:
        check_samples(self.task, inputs, targets, self.outputs)


def _probed(material: Material, recipe: Recipe, device: torch.device) -> Probe:
    """Show the model samples of the training part, and of the others where those look different."""
    model, others = material.model.to(device), {"test": material.test, "validation": material.validation}
    with seeded(torch_seed(recipe.seed, "initialisation", index=1), device):  # lazy layers take their weights
        left = learnt_from(recipe, len(material.train))
        found = probe(
            model,
            material.train,
            material.task,
            device,
            material.output,
            learns_from=Subset(material.train, left) if len(left) < len(material.train) else None,
        )
        for name, samples in others.items():
            if samples is None:
                continue
            if samples.targets is not None:
                check_samples(found.task, None, samples.targets, found.outputs)
            shapes = [
                [(tensor.shape, tensor.dtype) for tensor in tree_leaves(part.clean(np.arange(1))[0])]
                for part in (material.train, samples)
            ]
            if shapes[0] != shapes[1]:
                check_takes(model, samples, f"{name} samples", device, material.output)
    return found


def _facts(material: Material, found: Probe, device: torch.device, workers: int | None = None) -> Facts:
    """What the recipe's open fields depend on."""
    full_precision = all(parameter.dtype == torch.float32 for parameter in material.model.parameters())
    return Facts(
        dataset=material.info,
        num_samples=len(material.train),
        gains_from_bfloat16=material.gains_from_bfloat16 and full_precision and found.bfloat16,
        multiply_adds=found.multiply_adds,
        device=device,
        workers=workers,
        images=all(tensor.ndim == 4 for tensor in tree_leaves(material.train.clean(np.arange(1))[0])),
        transforms=material.train.targets is None,
        validation=material.validation is not None,
    )


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A recipe with nothing left open, and what its data is."""

    recipe: Recipe
    data: dict[str, Any]


class Resolver:
    """Resolves many recipes by name, loading each dataset and probing each model on it once."""

    def __init__(self, *, device: torch.device, data_dir: Path | None = None, download: bool = True) -> None:
        self._device, self._data_dir, self._download = device, data_dir, download
        self._loaded: dict[tuple[object, ...], Arrays] = {}
        self._probed: dict[tuple[object, ...], tuple[Material, Probe]] = {}

    def resolve(self, recipe: Recipe) -> Resolved:
        """The recipe with nothing left open; what no run can do is refused."""
        source = Named(data_dir=self._data_dir, download=self._download)
        recipe = asked = source.marked(recipe)
        known = source.task(recipe)
        if known is not None:
            recipe = resolve_method(recipe, known)
            bound_selection(recipe)
        part = recipe.validation_fraction and (recipe.validation_fraction, recipe.seed)
        key = (recipe.dataset, recipe.train_size, recipe.test_fraction, recipe.image_size, part)
        if key not in self._loaded:
            self._loaded[key] = load(recipe, self._data_dir, download=self._download)
        arrays = self._loaded[key]
        place = (*key, recipe.model, recipe.width, recipe.freeze, recipe.task, repr(recipe.task_options))
        if place not in self._probed:
            material = replace(source, arrays=arrays).load(recipe)
            self._probed[place] = material, _probed(material, recipe, self._device)
            if recipe.freeze is not None:
                freeze(material.model, recipe.freeze)
        material, found = self._probed[place]
        if known is None:
            recipe = resolve_method(recipe, found.task)
        recipe = by_groups(recipe, asked, material.cases)
        bound_selection(recipe)
        if recipe.promotion_cases is not None:  # few samples have no more cases
            samples = len(arrays.y_train) - validation_samples(recipe, len(arrays.y_train))
            cases = min(recipe.promotion_cases, held_out_samples(recipe, samples) or samples)
            recipe = recipe.replace(promotion_cases=cases)
        resolved = resolve(recipe.replace(**material.fields), _facts(material, found, self._device))
        _augmentation(source, resolved, material.train)
        check_optimizer(resolved, material.model, self._device.type)
        if resolved.fold_norm:
            Folding(material.model)
        return Resolved(recipe=resolved, data={**material.data, "task": learnt(found.task)})
