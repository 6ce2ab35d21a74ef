"""What may differ between a run and its continuation, and what may not."""

from __future__ import annotations

import json
from typing import Any

from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.runs._checkpoint import checkpoints
from gradlex.runs._folder import RunFolder

_OPEN = (None, "auto")
_INTERVALS = ("evaluate_every", "checkpoint_every")


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


def stored_intervals(folder: RunFolder) -> dict[str, Any]:
    """The intervals between evaluations and checkpoints that the run was last given, where it was given any."""
    if not (folder.path / "environment.json").exists():
        return {}
    stored = folder.read_json("environment.json")
    return {name: stored[name] for name in _INTERVALS if stored.get(name) is not None}


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
