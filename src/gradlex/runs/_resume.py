"""What may differ between a run and its continuation, and what may not."""

from __future__ import annotations

import json
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


def changed_machine(folder: RunFolder, device: torch.device) -> str | None:
    """What a person should know who goes on with another kind of device or another torch than the last sitting had."""
    stored = _environment(folder)
    had = {"device": str(stored.get("device")).partition(":")[0], "torch": stored.get("torch")}
    has = {"device": device.type, "torch": torch.__version__}
    if any(name in stored and had[name] != has[name] for name in has):
        return (
            f"the run was computed on {had['device']} with torch {had['torch']} and goes on on {has['device']} with "
            f"torch {has['torch']}: the last bits may differ from the run that would have been."
        )
    return None


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
            f"{folder.path}, or choose another folder."
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
