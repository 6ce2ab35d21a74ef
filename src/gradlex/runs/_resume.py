"""What may differ between a run and its continuation, and what may not."""

from __future__ import annotations

from typing import Any

from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.runs._checkpoint import checkpoints
from gradlex.runs._folder import RunFolder

_OPEN = (None, "auto")
_BY_CONTENT = ("dataset", "init_from")  # a path may change; the fingerprint says whether what it held did


def stored_recipe(folder: RunFolder) -> tuple[Recipe, dict[str, Any]]:
    """The resolved recipe of a run, and what it says of the data."""
    stored = folder.read_json("recipe.json")
    try:
        return Recipe.from_dict(stored["recipe"]), stored["data"]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder.path / 'recipe.json'} is not the recipe of a run: {error!r}.") from error


def continued(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe to go on with: what is left open is taken from the run, what differs from it is refused.

    More generations are allowed where the schedule is constant; a cosine would have given every generation so
    far another rate.
    """
    own, _ = stored_recipe(folder)
    asked, had = recipe.to_dict(), own.to_dict()
    different = {
        name: value
        for name, value in asked.items()
        if value not in _OPEN and value != had[name] and name not in _BY_CONTENT
    }
    generations = different.pop("generations", None)
    if different:
        told = "; ".join(f"{name} is {had[name]!r}, asked for {value!r}" for name, value in different.items())
        raise InputError(
            f"{folder.path} holds another run: {told}. Leave these out, or choose another folder."
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
