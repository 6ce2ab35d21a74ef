"""Variation: what the candidates of one parent differ in besides their samples.

Two candidates that were trained alike differ by the noise of their last steps, which is not inherited. A setting of
their own, an augmentation, a weight decay, a learning rate, is: with `inherit_variation` the winner's setting becomes
the parent's and is perturbed for the next generation, as in population based training (Jaderberg et al. 2017) with
selection by cases in the place of truncation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlex.population._parent import Parent
from gradlex.randomness import stream
from gradlex.recipe import Recipe

if TYPE_CHECKING:
    from gradlex.population._promotion import PromotedCandidates

_FACTORS = (0.8, 1.25)
"""What a number is multiplied by when it is perturbed (Jaderberg et al. 2017 take 0.8 and 1.2)."""
_RESAMPLED = 0.25
"""The chance that an augmentation is drawn anew, as in the same paper."""
_REACH = 4.0
"""How far beyond the given values, as a factor, perturbed ones may go."""
SLOT = "variation"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one candidate of one generation is trained with where it differs from the recipe."""

    lr: float = 1.0
    """A factor of the generation's learning rate."""
    weight_decay: float | None = None
    augment: str | None = None

    def plain(self) -> dict[str, Any]:
        """What a record holds of it."""
        return {name: value for name, value in vars(self).items() if value is not None}


def settings_of(recipe: Recipe, parent: Parent) -> list[Setting]:
    """The settings of the candidates that this parent's generation trains."""
    generation = parent.generation
    population = recipe.population_at(generation)
    if recipe.timeline:
        replayed = {key: values[generation] for key, values in recipe.timeline.items() if key != "lr"}
        return [Setting(**replayed)] * population
    if not recipe.vary or generation < recipe.branch:
        return [Setting()] * population
    if not recipe.inherit_variation or SLOT not in parent.slots:
        return [
            Setting(**{key: values[index % len(values)] for key, values in recipe.vary.items()})
            for index in range(population)
        ]
    inherited = {key: float(tensor) for key, tensor in parent.slots[SLOT].items()}
    return [
        _perturbed(
            inherited, recipe.vary, stream(recipe.seed, "variation", generation, index) if index else None
        )
        for index in range(population)
    ]


def _perturbed(
    inherited: Mapping[str, float], vary: Mapping[str, Sequence[Any]], rng: np.random.Generator | None
) -> Setting:
    """The parent's setting, or, with a stream, one near it."""
    found: dict[str, Any] = {}
    for key, values in vary.items():
        if key == "augment":
            place = round(inherited[key])
            if rng is not None and rng.random() < _RESAMPLED:
                place = int(rng.integers(len(values)))
            found[key] = values[place]
        else:
            factor = 1.0 if rng is None else float(rng.choice(_FACTORS))
            found[key] = min(max(inherited[key] * factor, min(values) / _REACH), max(values) * _REACH)
    return Setting(**found)


@dataclass(frozen=True)
class InheritVariation:
    """The promotion step that hands the chosen candidates' setting on: the mean by their weights.

    Of numbers above 0 the geometric mean; an augmentation is that of the largest weight.
    """

    recipe: Recipe

    def __call__(self, parent: Parent, before: Parent, candidates: PromotedCandidates) -> Parent:
        """The same parent, with its setting."""
        import torch  # noqa: PLC0415  # Algorithm 1 and its imports need none

        if before.generation < self.recipe.branch:
            return parent
        settings, weights = settings_of(self.recipe, before), candidates.weights
        first = settings[max(weights, key=weights.__getitem__)]
        found = {}
        for key, values in self.recipe.vary.items():
            if key == "augment":
                found[key] = float(values.index(first.augment))
                continue
            chosen = {index: float(getattr(settings[index], key)) for index in weights}
            if min(chosen.values()) > 0:
                found[key] = math.exp(sum(weights[i] * math.log(value) for i, value in chosen.items()))
            else:
                found[key] = sum(weights[i] * value for i, value in chosen.items())
        return parent.with_slot(
            SLOT, {key: torch.tensor(value, dtype=torch.float64) for key, value in found.items()}
        )
