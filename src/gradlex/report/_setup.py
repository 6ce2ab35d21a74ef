"""How the runs of an experiment were made, in words, so that no one mistakes a small number for the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlex.experiments import OWN_FIELDS
from gradlex.recipe import Recipe
from gradlex.report._evidence import Arm, Evidence
from gradlex.report._format import count, listed

PAPER = (
    "published: Ding and Spector (ICLR 2022), all training samples of each dataset, 200 generations for SGD and "
    "200 (p + 1) for a population of p; three seeds."
)

_TOLD = {
    "batch_size": "batch size",
    "lr": "rate",
    "weight_decay": "weight decay",
    "augment": "augmentation",
    "precision": "precision",
}
_PAPERS = {"on_all_fail": "random"}
"""What a run has where the paper's way is followed and the recipe's default leaves it open."""

_ELSEWHERE = {
    "dataset",
    "model",
    "width",
    "population",
    "momentum",
    "generations",
    "train_size",
    "seed",
    "threads",
}
"""Told by the tables themselves, or of no consequence for what they show."""


def setup_notes(evidence: Evidence) -> tuple[str, ...]:
    """One sentence for each way of training that the runs have; datasets and models with the same one share it."""
    settings: dict[str, list[str]] = {}
    for setting in evidence.settings:
        facts = _facts(list(evidence.on(setting).values()))
        settings.setdefault(facts, []).append(str(setting))
    return tuple(f"gradlex: {listed(names)}: {facts}" for facts, names in settings.items())


def _facts(arms: list[Arm]) -> str:
    runs = [run for arm in arms for run in arm.runs.values()]
    samples = {part: sorted({run.data[f"{part}_samples"] for run in runs}) for part in ("train", "test")}
    recipes = [run.recipe for run in runs]
    told = [f"{words} {_values(recipes, name)}" for name, words in _TOLD.items()]
    populations = [recipe for recipe in recipes if recipe.selection != "sgd"]
    if populations:
        told = [
            f"p = {_values(populations, 'population')}",
            f"momentum {_values(populations, 'momentum')}",
            *told,
        ]
    return (
        f"{_numbers(samples['train'])} training and {_numbers(samples['test'])} test samples; {_generations(arms)}; "
        f"{', '.join([*told, *_unusual(recipes)])}."
    )


def _unusual(recipes: list[Recipe]) -> list[str]:
    """Every other field that is neither a method's own nor what the paper has."""
    usual = {**Recipe().to_dict(), **_PAPERS}
    names = [
        name for name in usual if name not in OWN_FIELDS and name not in _TOLD and name not in _ELSEWHERE
    ]
    return [
        f"{name} {_values(recipes, name)}"
        for name in names
        if any(_value(recipe, name) not in (None, usual[name]) for recipe in recipes)
    ]


def _value(recipe: Recipe, name: str) -> Any:
    value = recipe.to_dict()[name]
    if name == "tournament_size" and value == recipe.population:  # the paper's: all candidates enter
        return None
    return value


def _generations(arms: list[Arm]) -> str:
    titles: dict[int, list[str]] = {}
    for arm in arms:
        titles.setdefault(arm.recipe.require("generations"), []).append(arm.title)
    if len(titles) == 1:
        return f"generations: {_numbers(list(titles))}"
    most = max(titles, key=lambda number: len(titles[number]))
    if len(titles[most]) > 3:  # a list that long says less than this
        titles[most] = ["the others"]
        titles[most] = titles.pop(most)  # "the others" come last
    told = [f"{count(number)} for {listed(names)}" for number, names in titles.items()]
    return f"generations: {'; '.join(told)}"


def _values(recipes: list[Recipe], name: str) -> str:
    """All that the recipes have, each once."""
    found = dict.fromkeys(_shown(value) for recipe in recipes if (value := _value(recipe, name)) is not None)
    return listed(sorted(found, key=int) if all(text.isdigit() for text in found) else list(found))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={each}" for key, each in value.items()) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _numbers(values: list[int]) -> str:
    return listed([count(value) for value in values])
