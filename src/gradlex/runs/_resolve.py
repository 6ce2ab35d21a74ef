"""Resolve a recipe: every field that is open gets its number, every conflict is refused."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from gradlex.data import DatasetInfo, parse_augment
from gradlex.errors import InputError, unknown_name
from gradlex.population import make_optimizer
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._resources import choose_threads, native_bfloat16
from gradlex.selection import SELECTIONS, Selection, promoting

_OPTIONS = sorted({option for info in SELECTIONS.values() for option in info.options})


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
    """What the processors are shared out among where threads are left open. None: as many as auto takes."""


def resolve(recipe: Recipe, facts: Facts) -> Recipe:
    """The same recipe with nothing left open."""
    return _resources(_training(resolve_method(recipe, facts.device), facts), facts)


def resolve_method(recipe: Recipe, device: torch.device) -> Recipe:
    """What depends on the method alone, so that it can be refused before any data is loaded."""
    recipe = _selection_options(_method(recipe))
    _refuse_unasked(recipe)
    promoting_selection(recipe)
    if recipe.outer_nesterov and recipe.outer_momentum == 0:
        raise InputError(
            "outer_nesterov is a form of the outer momentum, which is 0: set outer_momentum, or leave it out."
        )
    _try_optimizer(recipe, device)
    return recipe


def promoting_selection(recipe: Recipe) -> Selection:
    """The recipe's selection method and promotion with their options; combinations without a meaning are refused."""
    return promoting(
        recipe.promotion,
        recipe.selection,
        promotion_cases=recipe.promotion_cases,
        promotion_depth=recipe.promotion_depth,
        **{option: getattr(recipe, option) for option in SELECTIONS[recipe.selection].options},
    )


def _try_optimizer(recipe: Recipe, device: torch.device) -> None:
    """Take one step with the optimizer: torch checks some of its settings only then."""
    weights = nn.ParameterList([torch.zeros(1, 1)])
    weights[0].grad = torch.zeros(1, 1)
    optimizer = make_optimizer(recipe, weights, recipe.lr, device.type)
    try:
        optimizer.step()
    except Exception as error:  # torch raises many kinds
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"optimizer {recipe.optimizer!r} refused its settings (lr {recipe.lr:g}, weight_decay "
            f"{recipe.weight_decay:g}, options {dict(recipe.optimizer_options)}): {reason}"
        ) from error


def _method(recipe: Recipe) -> Recipe:
    """SGD is the same loop with population 1 and inherited momentum; the paper's defaults for the others."""
    if recipe.selection not in SELECTIONS:
        raise unknown_name("selection", recipe.selection, SELECTIONS)
    if recipe.selection != "sgd":
        return recipe.replace(population=recipe.population or 4, momentum=recipe.momentum or "reset")
    if recipe.population not in (None, 1):
        raise InputError(
            f"selection sgd trains one network, got population {recipe.population}: leave it out."
        )
    if recipe.momentum not in (None, "inherit"):
        raise InputError(f"selection sgd keeps its momentum, got momentum {recipe.momentum!r}: leave it out.")
    return recipe.replace(population=1, momentum="inherit")


def _selection_options(recipe: Recipe) -> Recipe:
    own = SELECTIONS[recipe.selection].options
    for option in _OPTIONS:
        if option not in own and getattr(recipe, option) is not None:
            takers = [info.name for info in SELECTIONS.values() if option in info.options]
            raise InputError(
                f"{option} belongs to {', '.join(takers)}; the selection is {recipe.selection}: leave it out."
            )
    filled = {
        option: default if getattr(recipe, option) is None else getattr(recipe, option)
        for option, default in own.items()
    }
    if "on_all_fail" in own and recipe.case_error == "loss":
        if recipe.on_all_fail == "random":
            raise InputError(
                "on_all_fail 'random' needs 0/1 errors: with case_error 'loss' no case is failed."
            )
        filled["on_all_fail"] = "survive"
    if "tournament_size" in own:
        filled["tournament_size"] = recipe.tournament_size or recipe.require("population")
        if filled["tournament_size"] > recipe.require("population"):
            raise InputError(
                f"tournament_size {recipe.tournament_size} is more than the population of {recipe.population}."
            )
    return recipe.replace(**filled)


def _refuse_unasked(recipe: Recipe) -> None:
    """Refuse options of a selection that looks at no case, or is never asked; what they are resolved to may stand."""
    if not SELECTIONS[recipe.selection].asks and recipe.case_error != "correct":
        raise InputError(
            f"case_error {recipe.case_error!r} is for selection; {recipe.selection!r} looks at no case: leave it out."
        )
    if recipe.promotion != "average":
        return
    plain = _selection_options(recipe.replace(case_error="correct", **dict.fromkeys(_OPTIONS)))
    for name in ("case_error", *_OPTIONS):
        given = getattr(recipe, name)
        if given != getattr(plain, name):
            raise InputError(
                f"{name} is for selection, which promotion 'average' does not ask, got {given!r}: leave it out."
            )


def _training(recipe: Recipe, facts: Facts) -> Recipe:
    population = recipe.require("population")
    if population > facts.num_samples // 2:
        raise InputError(
            f"population {population} is more than half of the {facts.num_samples} samples: each candidate needs "
            "at least two."
        )
    if recipe.promotion_cases is not None and recipe.promotion_cases > facts.num_samples:
        raise InputError(
            f"promotion_cases {recipe.promotion_cases} is more than the {facts.num_samples} training cases: give "
            "fewer, or leave it out to use all."
        )
    augment = facts.dataset.augment if recipe.augment is None else recipe.augment
    if augment != GIVEN:
        parse_augment(augment)
    baseline = facts.dataset.baseline_generations
    return recipe.replace(
        batch_size=recipe.batch_size or facts.dataset.batch_size,
        augment=augment,
        generations=recipe.generations or (baseline if population == 1 else baseline * (population + 1)),
    )


def _resources(recipe: Recipe, facts: Facts) -> Recipe:
    precision = recipe.precision
    if precision == "auto":
        bfloat16 = facts.gains_from_bfloat16 and native_bfloat16(facts.device)
        precision = "bfloat16" if bfloat16 else "float32"
    threads = choose_threads(recipe, facts.multiply_adds, facts.device, facts.workers)
    return recipe.replace(threads=threads.number, precision=precision)
