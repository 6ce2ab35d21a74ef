"""What may differ between a run and its continuation, and what may not."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from gradlex.data import DATASETS
from gradlex.errors import InputError
from gradlex.recipe import FUNCTIONS, GIVEN, REVISION, Recipe
from gradlex.runs._checkpoint import checkpoints, generation_of
from gradlex.runs._execution import find_device
from gradlex.runs._folder import RunFolder

_OPEN = (None, "auto")
_EXECUTION = ("evaluate_every", "checkpoint_every", "placement", "keep_checkpoints")
_BITS = ("processor", "accelerator", "torch", "numpy", "gradlex")


def stored_recipe(folder: RunFolder) -> tuple[Recipe, dict[str, Any]]:
    """The resolved recipe of a run, and what it says of the data."""
    stored, path = folder.read_json("recipe.json"), folder.path / "recipe.json"
    recipe, data = stored.get("recipe"), stored.get("data")
    if not isinstance(recipe, dict) or not isinstance(data, dict):
        raise InputError(f"{path} is not the recipe of a run: it lacks recipe or data.")
    try:
        return Recipe.from_dict(recipe), data
    except (InputError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error


def stored_revision(folder: RunFolder) -> int:
    """The revision of gradlex's results that a run was made by; 0.1.0 had none."""
    revision = folder.read_json("recipe.json").get("revision", 1)
    return revision if isinstance(revision, int) else 1


def check_revision(folder: RunFolder) -> None:
    """Refuse to continue a run that an earlier gradlex began, which computed something else."""
    if stored_revision(folder) != REVISION and not (folder.path / "result.json").exists():
        raise InputError(
            f"{folder.path} was begun by an earlier gradlex, which trained on other batches (a short last one for each "
            "candidate), so it cannot be continued as the same run: finish it with gradlex 0.1.0, or start it again in "
            "another folder. It can be reported as it is."
        )


def dataset_of(recipe: Recipe, data: dict[str, Any], folder: RunFolder) -> str:
    """Where a run's data lies: by its name, by the path it was given by, or where it lay from the run folder.

    The last goes before a relative path, which may mean another file in another current directory.
    """
    given, from_run = os.path.expanduser(recipe.dataset), data.get("path_from_run")
    beside = os.path.realpath(folder.path / from_run) if isinstance(from_run, str) else ""
    there, is_beside = os.path.exists(given), os.path.exists(beside)
    if recipe.dataset in (*DATASETS, GIVEN) or (there and (os.path.isabs(given) or not is_beside)):
        return recipe.dataset
    if is_beside:
        return recipe.dataset if there and os.path.samefile(given, beside) else beside
    raise InputError(
        f"{folder.path} was trained on {recipe.dataset!r}, which is not here: say where it is with --dataset PATH."
    )


def path_from_run(recipe: Recipe, folder: RunFolder) -> str | None:
    """Where a dataset that is a file or folder lies, as seen from the run folder; None for a name."""
    path = os.path.expanduser(recipe.dataset)
    if recipe.dataset in (*DATASETS, GIVEN) or not os.path.exists(path):
        return None
    parent, name = os.path.split(os.path.abspath(path))
    with suppress(ValueError):  # on another drive of Windows
        # Links among the folders are followed, so that it is found from there; the data itself may be one.
        found = os.path.relpath(os.path.join(os.path.realpath(parent), name), os.path.realpath(folder.path))
        return Path(found).as_posix()
    return None


def stored_execution(folder: RunFolder) -> dict[str, Any]:
    """How the run was last carried out, but for its workers: the intervals and the placement, where it has them."""
    stored = stored_environment(folder)
    return {name: stored[name] for name in _EXECUTION if stored.get(name) is not None}


def stored_device(folder: RunFolder) -> torch.device:
    """The device that the run was last computed on, or another of its kind; refused where this machine has none."""
    name = str(stored_environment(folder).get("device", "auto"))
    for device in (name, name.partition(":")[0]):
        with suppress(InputError):
            return find_device(device)
    raise InputError(
        f"{folder.path} was computed on {name}, which this machine lacks: resume with --device cpu, or another that it "
        "has; the last bits may then differ from those of an uninterrupted run."
    )


def stored_workers(folder: RunFolder, recipe: Recipe) -> int | None:
    """The run's workers where they decide its last bits.

    If there are more than candidates they share a batch; where candidates are stacked, they decide which.
    """
    stored = stored_environment(folder)
    workers = stored.get("workers")
    decides = stored.get("placement") == "stacked"
    return (
        workers if isinstance(workers, int) and (decides or workers > recipe.require("population")) else None
    )


def changed_machine(folder: RunFolder, recipe: Recipe, here: dict[str, Any]) -> str | None:
    """What a person should know who resumes with something else than the run had before; `here` is what there is."""
    had, has = (_deciding(each, recipe) for each in (stored_environment(folder), here))
    changed = [
        f"{name} {has[name]} in place of {had[name]}"
        for name in has
        if name in had and had[name] != has[name]
    ]
    if not changed:
        return None
    return f"resuming with {', '.join(changed)}: the last bits may differ from those of an uninterrupted run."


def _deciding(environment: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """What of an environment decides the last bits."""
    found = {name: environment[name] for name in _BITS if name in environment}
    if "device" in environment:
        found["device"] = str(environment["device"]).partition(":")[0]
    if isinstance(environment.get("workers"), int):
        size = max(1, environment["workers"] // recipe.require("population"))
        found["data-parallel groups of"] = size
    if "placement" in environment:
        together = environment["placement"] == "stacked"
        found["candidates trained"] = "together" if together else "one by one"
        if together:
            found["workers"] = environment.get("workers")
    return found


def recipe_checksum(recipe: Mapping[str, Any]) -> str:
    """A SHA-256 of a recipe as it is stored, but for what may change: the data's path, and an extendable run's length.

    Of what is stored, so that a field which a later gradlex adds changes nothing.
    """
    free = ("dataset", "generations") if Recipe.from_dict(recipe).extendable else ("dataset",)
    kept = {name: value for name, value in recipe.items() if name not in free}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def continued(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe to continue with: what is left open is taken from the run, what differs from it is refused.

    More generations are allowed where the schedule is constant; a cosine would have given every generation so
    far another learning rate.
    """
    own, _ = stored_recipe(folder)
    asked, had = (json.loads(json.dumps(r.to_dict())) for r in (recipe, own))  # tuples are stored as lists
    different = {
        name: value
        for name, value in asked.items()
        # The data's path may change: its fingerprint says whether what it holds did.
        if value not in _OPEN
        and value != had[name]
        and name != "dataset"
        and not _left_open(name, value, had)
    }
    generations = different.pop("generations", None)
    if different:
        told = "; ".join(f"{name} is {had[name]!r}, asked for {value!r}" for name, value in different.items())
        raise InputError(
            f"{folder.path} holds another run: {told}. Ask for what the run has, use gradlex resume "
            f"{shlex.quote(str(folder.path))}, or choose another folder."
        )
    functions = {name: getattr(recipe, name) for name in FUNCTIONS if callable(getattr(recipe, name))}
    own = own.replace(dataset=recipe.dataset, **functions)
    if generations is None:
        return own
    if not own.extendable or generations < own.require("generations"):
        why = (
            "fewer generations than the run has planned"
            if generations < own.require("generations")
            else "its schedule would have given every generation so far another learning rate"
        )
        raise InputError(
            f"{folder.path} is a run of {own.generations} generations, asked for {generations}: {why}. "
            "Only a run with a constant schedule can be made longer."
        )
    return own.replace(generations=generations)


def _left_open(name: str, asked: Any, had: dict[str, Any]) -> bool:
    """Whether what is asked for was left to its default, and resolved to what the run has."""
    if name == "recalibrate_final":  # which the mean of a tail needs
        return bool(asked == 0 and had["tail_mean"])
    return name == "selection_options" and all(had[name].get(key) == value for key, value in asked.items())


_AFTER_BRANCH = (
    *("selection", "selection_options", "population", "momentum", "promotion", "promotion_cases"),
    *("recalibrate", "recalibrate_final", "outer_lr", "outer_momentum", "outer_nesterov"),
    *("branch_at", "tail", "tail_options", "tail_mean", "generations", "dataset"),
    *("schedule", "schedule_options", "lr"),
    *("parts", "vary", "inherit_variation", "cases"),
)
"""What has no part in a run's first generations, before it branches; the learning rates are compared one by one."""
_STEPS = ("recalibrate", "outer_lr", "outer_momentum")
"""Those of them that change the parents of a run that branches earlier, or not at all."""


def different_beginning(recipe: Recipe, other: Recipe) -> list[str]:
    """What differs between two runs on the same data until the first of them, `recipe`, branches."""
    own, its = (json.loads(json.dumps(r.to_dict())) for r in (recipe, other))  # tuples are stored as lists
    different = [name for name in own if name not in _AFTER_BRANCH and own[name] != its[name]]
    generations = range(min(recipe.branch, other.require("generations")))
    if any(other.population_at(each) != 1 or other.momentum_at(each) != "inherit" for each in generations):
        different.append("population")
    elif any(other.lr_at(each) != recipe.lr_at(each) for each in generations):
        different.append("lr")
    if other.branch < recipe.branch:
        neutral = Recipe().to_dict()
        different += [name for name in _STEPS if its[name] != neutral[name]]
    return different


def check_beginning(recipe: Recipe, data: dict[str, Any], folder: RunFolder) -> None:
    """Refuse to begin with a run that is not, until this one branches, the same."""
    other, had = stored_recipe(folder)
    if recipe.branch == 0:
        raise InputError(
            f"a run begins with another one until it branches, and this one does not: set branch_at, or give the "
            f"weights alone as init_from {folder.path / 'model.safetensors'}."
        )
    check_revision(folder)
    different = different_beginning(recipe, other)
    if had.get("fingerprint") != data["fingerprint"]:
        different.append("the data")
    if different:
        hint = " (--threads 1; auto depends on the population)" if "threads" in different else ""
        raise InputError(
            f"{folder.path} does not begin as this run does: {', '.join(different)} differ before generation "
            f"{recipe.branch}, where it branches. Give both the same settings{hint}."
        )
    first_checkpoint(recipe, folder)


def first_checkpoint(recipe: Recipe, folder: RunFolder) -> Path:
    """The checkpoint of another run that this one begins with: its last one until this one branches."""
    found = [path for path in checkpoints(folder.path / "checkpoint") if generation_of(path) <= recipe.branch]
    if not found:
        raise InputError(
            f"{folder.path} has no checkpoint of generation {recipe.branch} or before, where this run branches: train "
            f"it with --keep-checkpoints {recipe.branch}."
        )
    return found[-1]


def check_data(folder: RunFolder, data: dict[str, Any]) -> None:
    """Refuse to continue with data that is not the run's."""
    _, had = stored_recipe(folder)
    if had.get("fingerprint") != data["fingerprint"] or had.get("train_samples") != data["train_samples"]:
        raise InputError(f"the data is not what {folder.path} was trained on: its fingerprint differs.")


def has_checkpoint(folder: RunFolder) -> bool:
    """Whether the run can continue from a checkpoint rather than from its beginning."""
    return bool(checkpoints(folder.path / "checkpoint"))


def stored_environment(folder: RunFolder) -> dict[str, Any]:
    """What environment.json holds; nothing where it is gone."""
    return folder.read_json("environment.json") if (folder.path / "environment.json").exists() else {}
