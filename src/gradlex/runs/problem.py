"""Problem: all that a run needs, made and resolved in one place and once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gradlex.data import Parts, prepare
from gradlex.data.normalization import normalized
from gradlex.data.samples import Samples
from gradlex.errors import InputError, warn
from gradlex.models import build
from gradlex.randomness import torch_seed
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs.folder import WEIGHTS, Described
from gradlex.runs.probe import lay_channels_last, probe
from gradlex.runs.weights import put_weights, read_weights
from gradlex.seeding import seeded
from gradlex.selection import Selection, make_selection
from gradlex.selection.strategy import Strategy
from gradlex.tasks import Task, make_task


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a caller passed in: objects, and a recipe that says "given" in their places."""

    recipe: Recipe
    model: nn.Module | None = None
    data: Any = None
    test: Any = None
    validation: Any = None
    clean: Any = None
    groups: Any = None
    augment: Any = None
    task: Any = None

    @classmethod
    def of(cls, model: Any, data: Any, recipe: Recipe | None, fields: Mapping[str, Any], **objects: Any) -> Given:
        """Sort names, which belong into the recipe, from objects."""
        if recipe is not None and not isinstance(recipe, Recipe):
            raise InputError(f"recipe must be a gradlex.Recipe, got {type(recipe).__name__}: write Recipe(epochs=5).")
        if model is not None and not isinstance(model, nn.Module | str):
            raise InputError(f"model must be an nn.Module or a name, got {model!r:.80}.")
        objects |= {"model": model, "data": os.fspath(data) if isinstance(data, os.PathLike) else data}
        named = {"model": "model", "data": "dataset", "augment": "augment", "task": "task"}
        texts = {field: objects.pop(name) for name, field in named.items() if isinstance(objects[name], str)}
        asked = (recipe or Recipe()).replace(**{**texts, **fields})
        for name, field in named.items():
            if objects.get(name) is None:
                continue
            if getattr(asked, field) not in (Recipe.model_fields[field].default, GIVEN):
                raise InputError(
                    f"{name} is given twice: as an object and as {getattr(asked, field)!r}. Leave one out."
                )
            if field != "task":
                asked = asked.replace(**{field: GIVEN})
        return cls(recipe=asked, **objects)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is trained: model, data and task on the device, and the recipe with every field filled in."""

    recipe: Recipe
    model: nn.Module
    """In training mode but for its frozen layers."""
    parts: Parts
    """The clean samples of the training part are the cases of selection."""
    task: Task
    """With what it learned from the training part."""
    selection: Selection
    groups: Any
    """The group of each training sample, or None."""
    data: dict[str, Any]
    """As run.json describes it."""
    device: torch.device
    outputs: int
    """How many numbers the network returns for a sample."""


def make_problem(
    given: Given,
    stored: Described | None,
    *,
    device: torch.device,
    data_dir: Path | str | None = None,
    fresh: bool = True,
) -> Problem:
    """Load, build, probe and resolve, each once.

    A run that continues is `stored` and must be the same; it is `fresh` if it needs initial weights nevertheless.
    """
    asked = given.recipe if stored is None else _located(given.recipe, stored.environment)
    parts = prepare(
        given.data,
        asked,
        test=given.test,
        validation=given.validation,
        clean=given.clean,
        augment=given.augment,
        data_dir=data_dir,
    )
    # A run that continues may have its data in another place, where it must be the same.
    recipe = parts.recipe.replace(dataset=(given.recipe if stored is None else Recipe(**stored.recipe)).dataset)
    few = parts.train.clean(np.arange(min(16, len(parts.train))))[1] if parts.targets is None else parts.targets
    task = make_task(recipe.task if given.task is None else given.task, few)
    inferred = given.task is None and given.recipe.task is None and str(task) == "classification"
    if inferred and str(recipe.selection).startswith("epsilon-lexicase"):
        task = make_task("classification(case_error=loss)")  # it compares degrees of error
        recipe = recipe.replace(task=str(task))
    if recipe.task is None or given.task is not None:
        recipe = recipe.replace(task=str(task))
    model, name = _network(given, recipe, parts, task, few, fresh=fresh)
    model = model.to(device)
    parts = _each(parts, lambda samples: samples.to(device))
    with seeded(torch_seed(recipe.seed, "initialization", index=1), device):  # lazy layers draw their weights
        found = probe(model, parts, task, device)
    if found.channels_last:
        lay_channels_last(model)
    else:
        parts = _each(parts, lambda samples: samples.replace(channels_last=False))
    known = {
        "channels_last": found.channels_last,
        "task_name": getattr(found.task, "_name", None),
        "task": found.task.learned,
        "groups": _digest(given.groups),
    }
    data = {**parts.description(), **known}
    recipe = _resolved(recipe.replace(model=name), parts, found.task)
    strategy = make_selection(recipe.selection)  # type: ignore[arg-type]  # with_method has named one
    if isinstance(strategy, Strategy):
        strategy = strategy.settled(graded=found.task.graded or given.groups is not None)
    if isinstance(recipe.selection, str):
        recipe = recipe.replace(selection=str(strategy))
    if stored is not None:
        _check_same(recipe, data, stored)
    return Problem(
        recipe=recipe,
        model=model,
        parts=parts,
        task=found.task,
        selection=strategy,
        groups=given.groups,
        data=data,
        device=device,
        outputs=found.outputs,
    )


def stored_parts(recipe: Recipe, data: Mapping[str, Any], environment: Mapping[str, Any]) -> Parts:
    """The samples of a stored run; InputError if they have changed."""
    parts = prepare(None, _located(recipe, environment))
    if parts.fingerprint != data.get("fingerprint"):
        raise InputError(f"{recipe.dataset} has changed since the run was trained on it.")
    return parts


def _each(parts: Parts, change: Callable[[Samples], Samples]) -> Parts:
    present = {name: getattr(parts, name) for name in ("train", "validation", "test")}
    changed: dict[str, Any] = {name: change(part) for name, part in present.items() if part is not None}
    return replace(parts, **changed)


def build_network(name: str, sample: Sequence[int], outputs: int, seed: int) -> nn.Module:
    """The network of a name with its initial weights."""
    with seeded(torch_seed(seed, "initialization"), torch.device("cpu")):
        return build(name, sample=sample, outputs=outputs)


def _network(
    given: Given, recipe: Recipe, parts: Parts, task: Task, targets: Any, *, fresh: bool
) -> tuple[nn.Module, str]:
    """The network with its initial weights behind its normalization, and its name."""
    shape, name = parts.sample_shape, recipe.model
    if given.model is not None:
        network = build(given.model, sample=(), outputs=0)
        if not all(parameter.is_leaf for parameter in network.parameters()):
            raise InputError(
                "a copy of the model has parameters that can't be trained: pass the model as it was before "
                "torch.jit.script or a similar change."
            )
    elif shape is None:
        raise InputError("inputs of several tensors need a model of your own: give it as a module.")
    else:
        if name == "auto":
            name = "small-cnn" if len(shape) == 3 and min(shape[1:]) >= 8 else "mlp"
        network = build_network(name, shape, task.outputs(targets), recipe.seed)
    if not any(layer.training for layer in network.modules()):  # it was only evaluated before
        network.train()
    if recipe.init_from is not None and fresh:
        path = Path(recipe.init_from).expanduser()
        tensors = read_weights(path / WEIGHTS if path.is_dir() else path)
        if "normalize.mean" in tensors:  # this run has its own normalization
            tensors = {n.removeprefix("network."): t for n, t in tensors.items() if n.startswith("network.")}
        put_weights(network, tensors, path)
    return normalized(network, parts.normalization), name


def _resolved(recipe: Recipe, parts: Parts, task: Task) -> Recipe:
    """The recipe with every open field filled in; what means nothing for this data and model is an error."""
    if recipe.selection == GIVEN:
        raise InputError("the selection was a function, which isn't stored: give it again as selection=.")
    recipe = recipe.with_method(task.selection)
    size, samples = recipe.population or 1, len(parts.train)
    if size > max(samples // 2, 1):
        raise InputError(
            f"population {size} is more than half of the {samples} training samples: each candidate needs at least two."
        )
    if size > 1 and samples // size < 8:
        warn(f"{size} candidates get only {samples // size} of {samples} training samples each: use fewer candidates.")
    if recipe.patience is not None and parts.validation is None:
        raise InputError(
            f"patience {recipe.patience} needs a validation part, and there is none: set validation_fraction, such "
            "as 0.1, or give validation=."
        )
    if recipe.patience is not None and recipe.tail_mean:
        raise InputError("patience and tail_mean each say which model is returned: leave one of them out.")
    alone = size == 1 or recipe.branch_at > 0  # as many samples as SGD
    epochs = recipe.epochs or parts.info.epochs * (1 if alone else size + 1)
    recipe = recipe.replace(epochs=epochs)
    for generation in range(epochs):
        recipe.lr_at(generation)  # a schedule of the caller's may return anything
    return recipe


def _digest(groups: Any) -> str | None:
    return None if groups is None else hashlib.sha256(repr(np.asarray(groups).tolist()).encode()).hexdigest()


def _located(recipe: Recipe, environment: Mapping[str, Any]) -> Recipe:
    """The recipe with its dataset as it is found from here: a path counts from where the run was started."""
    folder = environment.get("folder")
    path = None if folder is None else Path(folder) / recipe.dataset
    here = Path(recipe.dataset).expanduser().exists()
    return recipe if here or path is None or not path.exists() else recipe.replace(dataset=str(path))


def _check_same(recipe: Recipe, data: Mapping[str, Any], stored: Described) -> None:
    """Raise an error if a run would continue with other settings or other data."""
    now, before = recipe.to_dict(), stored.recipe
    differing = [
        f"{name} is {now[name]!r}, the run has {before.get(name)!r}" for name in now if now[name] != before.get(name)
    ]
    if differing:
        raise InputError(f"the run was started with a different recipe: {'; '.join(differing[:3])}.")
    for name in ("fingerprint", "samples", "groups"):
        if data[name] != stored.data.get(name):
            raise InputError(
                f"the data has changed since the run was started ({name}): restore it, or start a new run."
            )
