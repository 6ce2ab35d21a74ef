"""Resolve a recipe: every field that is open gets its number, every conflict is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gradlex._devices import native_bfloat16
from gradlex.data import DatasetInfo, needs_images, parse_augment, validation_samples
from gradlex.errors import InputError
from gradlex.population import optimizer_keywords
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._resources import choose_threads
from gradlex.selection import SELECTIONS, Cases, OnCases, Selection, find, promoting
from gradlex.tasks import Task, default_selection

_HELD_OUT = 0.1


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a recipe's open fields depend on."""

    dataset: DatasetInfo
    num_samples: int
    gains_from_bfloat16: bool
    multiply_adds: float
    """Of the network, for one sample."""
    device: torch.device
    workers: int | None = None
    """What the CPUs are shared out among where threads are left open. None: as many as auto takes."""
    images: bool = True
    """Whether the samples are images, which can be cropped and flipped."""
    transforms: bool = False
    """Whether the samples may be augmented by their Dataset."""
    validation: bool = False
    """Whether there are validation samples beside the training samples."""


def resolve_method(recipe: Recipe, task: Task) -> Recipe:
    """What depends on task and method alone, so that it can be refused before any data is loaded."""
    if recipe.selection is None:
        recipe = recipe.replace(selection=default_selection(task))
    recipe = _selection_options(_method(recipe), task)
    _check_unasked(recipe, task)
    _check_alone(recipe)
    optimizer_keywords(recipe)
    for decay in recipe.vary.get("weight_decay", ()):
        optimizer_keywords(recipe.replace(weight_decay=decay))
    if recipe.tail_mean and recipe.branch_at == 0:
        raise InputError("tail_mean averages the parents since the branch: set branch_at, 0.75 for example.")
    if recipe.tail_mean and recipe.keep == "best":
        raise InputError("tail_mean and keep 'best' each say what the final model is: leave one of them out.")
    if recipe.outer_nesterov and recipe.outer_momentum == 0:
        raise InputError(
            "outer_nesterov is a form of the outer momentum, which is 0: set outer_momentum, or leave it out."
        )
    return recipe


def bound_selection(recipe: Recipe) -> Selection:
    """The recipe's selection and promotion with their options; combinations without a meaning are refused."""
    return promoting(
        recipe.promotion,
        recipe.method,
        cases=recipe.promotion_cases,
        options=dict(recipe.selection_options),
    )


def by_groups(recipe: Recipe, asked: Recipe, cases: Cases | None) -> Recipe:
    """The resolved recipe for cases that are groups: their mean errors are graded, so no case is simply failed."""
    if cases is None or cases.groups is None or recipe.selection_options.get("on_all_fail") != "random":
        return recipe
    if asked.selection_options.get("on_all_fail") == "random":
        raise InputError(
            "on_all_fail 'random' needs 0/1 errors, and a group's mean error is graded: leave it out, or the groups."
        )
    return recipe.replace(selection_options={**recipe.selection_options, "on_all_fail": "survive"})


def on_cases(select: Selection, cases: Cases | None, samples: int, recipe: Recipe) -> Selection:
    """The selection on described cases; refused where it would not follow their order."""
    if cases is None:
        return select
    info = find(recipe.method)
    if cases.resolve(samples).ordered and info.asks:
        if not info.ordered:
            able = [name for name, each in SELECTIONS.items() if each.ordered]
            raise InputError(
                f"weights and priorities say in which order cases come, which selection {info.name!r} does not follow: "
                f"use one of {', '.join(able)}."
            )
        if recipe.promotion_cases is not None:
            raise InputError(
                "promotion_cases are drawn alike, and these cases have weights or priorities: leave one of them out."
            )
    return OnCases(select, cases, samples)


def resolve(recipe: Recipe, facts: Facts) -> Recipe:
    """The recipe, resolved for its method already, with nothing left open."""
    population = recipe.require("population")
    if recipe.cases == "held-out":
        recipe = recipe.replace(held_out=recipe.held_out or _HELD_OUT)
    _check_validation(recipe, facts)
    left = facts.num_samples - validation_samples(recipe, facts.num_samples)
    held = held_out_samples(recipe, left)
    samples, cases = left - held, held or left
    if recipe.held_out is not None and held == 0:
        raise InputError(f"held_out {recipe.held_out:g} of {left} samples leaves no case: give more.")
    if population > samples // 2:
        raise InputError(
            f"population {population} is more than half of the {samples} samples: each candidate needs at least two."
        )
    if recipe.promotion_cases is not None and recipe.promotion_cases > cases:
        raise InputError(
            f"promotion_cases {recipe.promotion_cases} is more than the {cases} cases: give fewer, or leave it out to "
            "use all."
        )
    for augmentation in recipe.vary.get("augment", ()):
        if needs_images(parse_augment(augmentation)) and not facts.images:
            raise InputError(f"vary augment {augmentation!r} needs images (N, channels, height, width).")
    augment = facts.dataset.augment if recipe.augment is None else recipe.augment
    if augment != GIVEN:
        parse_augment(augment)
    if recipe.cases == "augmented" and augment == "none" and not facts.transforms:
        raise InputError(
            "cases 'augmented' need an augmentation, and there is none: set augment, or leave cases out."
        )
    precision = recipe.precision
    if precision == "auto":
        bfloat16 = facts.gains_from_bfloat16 and native_bfloat16(facts.device)
        precision = "bfloat16" if bfloat16 else "float32"
    epochs = facts.dataset.baseline_generations
    once = population == 1 or recipe.branch_at  # as many samples as SGD
    batch_size = recipe.batch_size or facts.dataset.batch_size
    if recipe.accumulate > max(batch_size // 2, 1):
        raise InputError(
            f"accumulate {recipe.accumulate} is more than half of the batch size of {batch_size}: each part of a step "
            "needs at least two samples."
        )
    whole = -(-samples // batch_size)  # batches that hold every sample once
    recipe = recipe.replace(
        batch_size=batch_size,
        recalibrate_final=recipe.recalibrate_final or (whole if recipe.tail_mean else 0),
        augment=augment,
        generations=recipe.generations or epochs * (1 if once else population + 1),
        precision=precision,
        threads=choose_threads(recipe, facts.multiply_adds, facts.device, facts.workers),
    )
    for generation in range(recipe.require("generations")):  # a schedule of the user's may answer anything
        recipe.lr_at(generation)
    return recipe


def _check_validation(recipe: Recipe, facts: Facts) -> None:
    """Refuse a validation part without a sample, and what decides by one where there is none."""
    fraction = recipe.validation_fraction
    if fraction is not None and validation_samples(recipe, facts.num_samples) == 0:
        raise InputError(
            f"validation_fraction {fraction:g} of {facts.num_samples} samples leaves none to validate on: give more."
        )
    if fraction is None and not facts.validation:
        for name, value in (("patience", recipe.patience), ("keep", recipe.keep)):
            if value not in (None, "last"):
                raise InputError(
                    f"{name} {value} looks at a validation part, and there is none: set validation_fraction, 0.1 for "
                    "example, or give gradlex.train validation=."
                )


def held_out_samples(recipe: Recipe, num_samples: int) -> int:
    """How many of the training samples are held out as cases."""
    return round((recipe.held_out or _HELD_OUT) * num_samples) if recipe.cases == "held-out" else 0


def _check_alone(recipe: Recipe) -> None:
    """Refuse what only several candidates have, and cases that nobody would look at."""
    if recipe.population == 1:
        for name, value, neutral in (("vary", dict(recipe.vary), {}), ("parts", recipe.parts, "disjoint")):
            if value != neutral:
                raise InputError(
                    f"{name} tells several candidates apart, and there is one, got {value!r}: leave it out, or give a "
                    "larger population."
                )
    looks = recipe.population != 1 and recipe.promotion != "average" and find(recipe.method).asks
    if recipe.cases != "clean" and not looks:
        who = "promotion 'average'" if recipe.promotion == "average" else f"selection {recipe.selection!r}"
        alone = " of one candidate" if recipe.population == 1 else ""
        raise InputError(
            f"cases {recipe.cases!r} are for selection, and {who}{alone} looks at none: leave it out."
        )


def _method(recipe: Recipe) -> Recipe:
    """SGD is the same loop with population 1 and inherited momentum; the paper's defaults for the others."""
    if recipe.selection == GIVEN:
        raise InputError(
            "this run's selection was a function, which is not stored: give it again as Recipe(selection=...)."
        )
    if recipe.selection != "sgd":
        return recipe.replace(population=recipe.population or 4, momentum=recipe.momentum or "reset")
    if recipe.population not in (None, 1):
        raise InputError(
            f"selection sgd trains one network, got population {recipe.population}: leave it out."
        )
    if recipe.momentum not in (None, "inherit"):
        raise InputError(f"selection sgd keeps its momentum, got momentum {recipe.momentum!r}: leave it out.")
    return recipe.replace(population=1, momentum="inherit")


def _selection_options(recipe: Recipe, task: Task) -> Recipe:
    """The options that are given, and the defaults of the others."""
    given, method = dict(recipe.selection_options), find(recipe.method)
    method.check(given)
    options: dict[str, Any] = {**method.options, **given}
    if options.get("on_all_fail") == "random" and task.graded:
        if given.get("on_all_fail") == "random":
            raise InputError("on_all_fail 'random' needs 0/1 errors: with graded ones no case is failed.")
        options["on_all_fail"] = "survive"
    if "tournament_size" in options:
        options["tournament_size"] = options["tournament_size"] or recipe.require("population")
        if options["tournament_size"] > recipe.require("population"):
            raise InputError(
                f"tournament_size {options['tournament_size']} is more than the population of {recipe.population}."
            )
    return recipe.replace(selection_options={key: v for key, v in options.items() if v is not None})


def _check_unasked(recipe: Recipe, task: Task) -> None:
    """Refuse options of a selection that is never asked; what they are resolved to may stand."""
    if recipe.promotion != "average":
        return
    plain = _selection_options(recipe.replace(selection_options={}), task)
    for name, value in recipe.selection_options.items():
        if value != plain.selection_options.get(name):
            raise InputError(
                f"{name} is for selection, which promotion 'average' does not ask, got {value!r}: leave it out."
            )
