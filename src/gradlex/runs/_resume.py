"""What may differ between a run and its continuation, and what may not."""

from __future__ import annotations

import hashlib
import json
import shlex
from contextlib import suppress
from typing import Any

import torch

from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.runs._checkpoint import checkpoints
from gradlex.runs._device import find_device
from gradlex.runs._folder import RunFolder

_OPEN = (None, "auto")
_EXECUTION = ("evaluate_every", "checkpoint_every", "placement")
_BITS = ("processor", "accelerator", "torch", "numpy", "gradlex")


def stored_recipe(folder: RunFolder) -> tuple[Recipe, dict[str, Any]]:
    """The resolved recipe of a run, and what it says of the data."""
    stored, path = folder.read_json("recipe.json"), folder.path / "recipe.json"
    recipe, data = stored.get("recipe"), stored.get("data")
    if not isinstance(recipe, dict) or not isinstance(data, dict):
        raise InputError(f"{path} is not the recipe of a run: it lacks recipe or data.")
    try:
        return Recipe.from_dict(recipe), data
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def stored_execution(folder: RunFolder) -> dict[str, Any]:
    """How the run was last carried out, but for its workers: the intervals and the placement, where it has them."""
    stored = _environment(folder)
    return {name: stored[name] for name in _EXECUTION if stored.get(name) is not None}


def stored_device(folder: RunFolder) -> torch.device:
    """The device that the run was last computed on, or another of its kind; refused where this machine has none."""
    name = str(_environment(folder).get("device", "auto"))
    for device in (name, name.partition(":")[0]):
        with suppress(InputError):
            return find_device(device)
    raise InputError(
        f"{folder.path} was computed on {name}, which this machine lacks: go on with --device cpu, or another that it "
        "has, and the last bits may differ from the run that would have been."
    )


def stored_groups(folder: RunFolder, recipe: Recipe) -> int | None:
    """The run's workers where they are more than its candidates: then they decide how a batch is shared out."""
    workers = _environment(folder).get("workers")
    return workers if isinstance(workers, int) and workers > recipe.require("population") else None


def changed_machine(folder: RunFolder, recipe: Recipe, here: dict[str, Any]) -> str | None:
    """What a person should know who goes on with something else than the last sitting had; `here` is what there is."""
    had, has = (_deciding(each, recipe) for each in (_environment(folder), here))
    changed = [
        f"{name} {has[name]} in place of {had[name]}"
        for name in has
        if name in had and had[name] != has[name]
    ]
    if not changed:
        return None
    return f"the run goes on with {', '.join(changed)}: the last bits may differ from the run that would have been."


def _deciding(environment: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """What of an environment decides the last bits."""
    found = {name: environment[name] for name in _BITS if name in environment}
    if "device" in environment:
        found["device"] = str(environment["device"]).partition(":")[0]
    if isinstance(environment.get("workers"), int):
        size = max(1, environment["workers"] // recipe.require("population"))
        found["data-parallel groups of"] = size
    return found


def recipe_checksum(recipe: Recipe) -> str:
    """A SHA-256 of what a run that goes on must have alike: all but the data's path, and a constant rate's length."""
    free = ("dataset", "generations") if recipe.schedule == "constant" else ("dataset",)
    kept = {name: value for name, value in recipe.to_dict().items() if name not in free}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def continued(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe to go on with: what is left open is taken from the run, what differs from it is refused.

    More generations are allowed where the schedule is constant; a cosine would have given every generation so
    far another rate.
    """
    own, _ = stored_recipe(folder)
    asked, had = (json.loads(json.dumps(r.to_dict())) for r in (recipe, own))  # tuples are stored as lists
    different = {
        name: value
        for name, value in asked.items()
        # The data's path may change: its fingerprint says whether what it holds did.
        if value not in _OPEN and value != had[name] and name != "dataset"
    }
    generations = different.pop("generations", None)
    if different:
        told = "; ".join(f"{name} is {had[name]!r}, asked for {value!r}" for name, value in different.items())
        raise InputError(
            f"{folder.path} holds another run: {told}. Give what the run has, go on with gradlex resume "
            f"{shlex.quote(str(folder.path))}, or choose another folder."
        )
    own = own.replace(dataset=recipe.dataset)
    if generations is None:
        return own
    if own.schedule != "constant" or generations < own.require("generations"):
        why = (
            "fewer generations than the run was to have"
            if generations < own.require("generations")
            else "its cosine schedule would have given every generation so far another rate"
        )
        raise InputError(
            f"{folder.path} is a run of {own.generations} generations, asked for {generations}: {why}. "
            "Only a constant schedule can be made longer."
        )
    return own.replace(generations=generations)


def refuse_other_data(folder: RunFolder, data: dict[str, Any]) -> None:
    """Refuse to go on with data that is not the run's."""
    _, had = stored_recipe(folder)
    if had.get("fingerprint") != data["fingerprint"] or had.get("train_samples") != data["train_samples"]:
        raise InputError(f"the data is not what {folder.path} was trained on: its fingerprint differs.")


def has_checkpoint(folder: RunFolder) -> bool:
    """Whether the run can go on from a checkpoint rather than from its beginning."""
    return bool(checkpoints(folder.path / "checkpoint"))


def _environment(folder: RunFolder) -> dict[str, Any]:
    """What environment.json holds; nothing where it is gone."""
    return folder.read_json("environment.json") if (folder.path / "environment.json").exists() else {}
