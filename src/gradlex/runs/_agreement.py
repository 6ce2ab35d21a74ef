"""What the ranks that a launcher started must have alike: the leading process's recipe, and the same data.

Threads and precision follow from a machine, and what a run that goes on has may be in a folder that the leading
process alone sees: so its recipe is everybody's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.distributed as dist

from gradlex.data import ArraySamples, DatasetSamples, parse_augment
from gradlex.errors import InputError
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._problem import Problem

_DATA = ("fingerprint", "train_samples", "test_samples")


def gathered(own: Any) -> list[Any]:
    """What every rank of the run has to tell, in their order; all of them meet here."""
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, own)
    return told


def agreed_recipe(problem: Problem) -> Recipe:
    """The recipe of rank 0; refused, on every rank, where one of them has other data."""
    told = gathered((problem.recipe.to_dict(), {name: problem.data[name] for name in _DATA}))
    recipe, first = told[0]
    for rank, (_, data) in enumerate(told):
        if data != first:
            raise InputError(
                f"rank {rank} has other data than rank 0: {_described(data)} there, {_described(first)} on rank 0. "
                "Give every machine the same data."
            )
    return Recipe.from_dict(recipe)


def adopted(problem: Problem, recipe: Recipe) -> Problem:
    """The problem with another rank's recipe."""
    train = problem.train
    if recipe.augment not in (problem.recipe.augment, GIVEN) and isinstance(
        train, ArraySamples | DatasetSamples
    ):
        train = train.with_augment(parse_augment(recipe.augment or "none"))
    return replace(problem, recipe=recipe, train=train)


def _described(data: dict[str, Any]) -> str:
    return "fingerprint {fingerprint}, {train_samples} training and {test_samples} test samples".format(
        **data
    )
