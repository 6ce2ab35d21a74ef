"""Grid: what an experiment ranges over. Its cells are recipes; nothing else distinguishes one run from another."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import get_args

from gradlex.data import dataset_info
from gradlex.errors import InputError, unknown_name
from gradlex.experiments._methods import METHODS, POPULATION, method_recipe, refuse_unused_options
from gradlex.models import MODELS
from gradlex.recipe import Momentum, Recipe


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of an experiment before its data is known: the method it stands for, and its recipe."""

    method: str
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Datasets x models x methods x populations x momenta x seeds, and the settings that all runs share."""

    datasets: tuple[str, ...]
    models: tuple[str, ...]
    methods: tuple[str, ...]
    populations: tuple[int, ...] = (POPULATION,)
    momenta: tuple[Momentum, ...] = ("reset",)
    seeds: int = 3
    """How many: 0, 1, ..."""
    epochs: int | None = None
    """Generations of the SGD baseline; a population of p has p + 1 times as many. None: the dataset's own."""
    shared: Recipe = field(default_factory=lambda: Recipe(threads=1))

    def __post_init__(self) -> None:
        """Refuse an empty dimension, an unknown name, and what is named twice."""
        for name in ("datasets", "models", "methods", "populations", "momenta"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise InputError(
                    f"{name} must name at least one, each once, got {' '.join(map(str, values))!r}."
                )
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}.")
        if self.epochs is not None and self.epochs < 1:
            raise InputError(f"generations must be at least 1, got {self.epochs}.")
        named = [model for model in self.models if ":" not in model]  # not package.module:factory
        for kind, values, known in (
            ("model", named, MODELS),
            ("method", self.methods, METHODS),
            ("momentum", self.momenta, get_args(Momentum)),
        ):
            for value in values:
                if value not in known:
                    raise unknown_name(kind, value, known)
        refuse_unused_options(self.shared, self.methods)

    def cells(self) -> list[Cell]:
        """Every run, seed by seed, so that what is done first compares all methods.

        Each recipe stands once: at a weight decay of 5e-4 both forms of compute-matched SGD are the first.
        """
        found: dict[str, Cell] = {}
        for seed, dataset, model, method in product(
            range(self.seeds), self.datasets, self.models, self.methods
        ):
            for population, momentum in self._populations(method):
                recipe = self._recipe(method, dataset, model, population, momentum, seed)
                found.setdefault(repr(recipe), Cell(method=method, recipe=recipe))
        return list(found.values())

    def _populations(self, method: str) -> list[tuple[int, Momentum]]:
        """SGD has neither, but its compute-matched form as many samples as each population."""
        both = list(product(self.populations, self.momenta))
        if not METHODS[method].is_sgd:
            return both
        return [(p, self.momenta[0]) for p in self.populations] if METHODS[method].matched else both[:1]

    def _recipe(
        self, method: str, dataset: str, model: str, population: int, momentum: Momentum, seed: int
    ) -> Recipe:
        info = dataset_info(dataset)
        own = self.shared.replace(
            dataset=dataset,
            model=model,
            population=population,
            momentum=momentum,
            seed=seed,
            batch_size=self.shared.batch_size or info.batch_size,
            augment=info.augment if self.shared.augment is None else self.shared.augment,
        )
        return method_recipe(method, own, epochs=self.epochs or info.baseline_generations)
