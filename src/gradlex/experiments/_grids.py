"""Grids of recipes: what an experiment ranges over. The paper's tables at three scales, and one's own comparison.

paper: the setting of Ding and Spector (ICLR 2022), as far as the paper states it.
small: for two CPU cores, about three hours per table: a residual network of 20 layers on 2,500 images, near the
    paper's regime (SGD fits its training images, a candidate takes at least 30 steps per generation).
smoke: one minute, offline, to see that everything works; its numbers mean nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, TypeAlias, get_args

from gradlex.data import dataset_info
from gradlex.errors import InputError, unknown_name
from gradlex.experiments._methods import (
    METHODS,
    OFFERED,
    OWN_FIELDS,
    POPULATION,
    check_options,
    method_recipe,
    tried,
)
from gradlex.models import MODELS
from gradlex.recipe import Momentum, Recipe

Scale: TypeAlias = Literal["smoke", "small", "paper"]

_MOST_SEEDS = 1_000
_DIMENSIONS = ("dataset", "model", "population", "momentum", "generations", "seed")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of an experiment before its data is known: the method it stands for, and its recipe."""

    method: str
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Datasets x models x methods x populations x momenta x seeds, and the settings that all runs share.

    Examples:
        >>> from gradlex.experiments import Grid
        >>> grid = Grid(datasets=("digits",), models=("mlp",), methods=("sgd", "lexicase"), populations=(2, 4))
        >>> len(grid.cells())  # three seeds of SGD, and of lexicase with each population
        9
        >>> grid.changed(seeds=1).seeds
        1
    """

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
        """Refuse an empty dimension, an unknown name, and a name given twice."""
        for name in ("datasets", "models", "methods", "populations", "momenta"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                given = " ".join(map(str, values))
                raise InputError(f"{name} must name at least one, each once, got {given!r}.")
        if not 1 <= self.seeds <= _MOST_SEEDS:
            raise InputError(f"seeds must be at least 1 and at most {_MOST_SEEDS}, got {self.seeds}.")
        if self.epochs is not None and self.epochs < 1:
            raise InputError(f"generations must be at least 1, got {self.epochs}.")
        named = [model for model in self.models if ":" not in model]  # not package.module:factory
        for kind, values, known, offered in (
            ("model", named, MODELS, MODELS),
            ("method", self.methods, METHODS, OFFERED),
            ("momentum", self.momenta, get_args(Momentum), get_args(Momentum)),
        ):
            for value in values:
                if value not in known:
                    raise unknown_name(kind, value, offered)
        check_options(self.shared, self.methods)

    def changed(
        self,
        *,
        datasets: Sequence[str] = (),
        models: Sequence[str] = (),
        methods: Sequence[str] = (),
        populations: Sequence[int] = (),
        momenta: Sequence[str] = (),
        seeds: int | None = None,
        generations: int | None = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> Grid:
        """The grid with what is given; an empty dimension stays as it is. `recipe` changes fields of all runs."""
        ranges: dict[str, Sequence[Any]] = {
            "datasets": datasets,
            "models": models,
            "methods": methods,
            "populations": populations,
            "momenta": momenta,
        }
        fields = dict(recipe or {})
        _check_fields(fields)
        return replace(
            self,
            **{name: tuple(values) for name, values in ranges.items() if values},
            seeds=self.seeds if seeds is None else seeds,
            epochs=self.epochs if generations is None else generations,
            shared=self.shared.replace(**fields),
        )

    def cells(self) -> list[Cell]:
        """Every run, seed by seed, so that what finishes first compares all methods.

        Each recipe appears once: at a weight decay of 5e-4 both forms of compute-matched SGD are the first.
        """
        found: dict[str, Cell] = {}
        for seed, dataset, model, method in product(
            range(self.seeds), self.datasets, self.models, self.methods
        ):
            for population, momentum in self._populations(method):
                recipe = self._recipe(method, dataset, model, population, momentum, seed)
                for each in tried(method, recipe, population):
                    found.setdefault(repr(each), Cell(method=method, recipe=each))
        return list(found.values())

    def _populations(self, method: str) -> list[tuple[int, Momentum]]:
        """SGD has neither, but its compute-matched form and its separate runs go by each population's size."""
        both = list(product(self.populations, self.momenta))
        if not METHODS[method].is_sgd:
            return both
        sized = METHODS[method].matched or METHODS[method].tries
        return [(p, self.momenta[0]) for p in self.populations] if sized else both[:1]

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


def _check_fields(fields: Mapping[str, Any]) -> None:
    """Refuse recipe fields that an experiment decides itself."""
    known = {each.name for each in dataclasses.fields(Recipe)}
    for name in fields:
        if name not in known:
            raise unknown_name("recipe field", name, known)
        if name in _DIMENSIONS:
            raise InputError(f"recipe field {name} is a dimension of the experiment: set it there.")
        if name in OWN_FIELDS - {"weight_decay"}:  # which only one method has of its own
            raise InputError(f"recipe field {name} tells methods apart: choose among the methods instead.")


ARCHITECTURES = (
    "vgg16",
    "resnet18",
    "resnet50",
    "densenet121",
    "mobilenetv2",
    "senet18",
    "efficientnetb0",
)
_PAIR = ("sgd", "lexicase")

_SCALES: Mapping[str, Grid] = {
    "paper": Grid(
        datasets=("cifar10",),
        models=("resnet18",),
        methods=_PAIR,
        epochs=200,
        shared=Recipe(lr=0.1, weight_decay=1e-4, augment="crop4,flip", threads=1, precision="float32"),
    ),
    "small": Grid(
        datasets=("cifar10",),
        models=("resnet20",),
        methods=_PAIR,
        epochs=60,
        shared=Recipe(
            lr=0.1, weight_decay=1e-4, augment="crop4,flip", batch_size=20, train_size=2_500, threads=1
        ),
    ),
    "smoke": Grid(
        datasets=("digits",),
        models=("small-cnn",),
        methods=_PAIR,
        seeds=1,
        epochs=3,
        shared=Recipe(threads=1),
    ),
}


def table1(scale: Scale) -> Grid:
    """SGD against gradient lexicase selection, over architectures and datasets."""
    grid = _SCALES[scale]
    if scale == "paper":
        return replace(grid, datasets=("cifar10", "cifar100", "svhn"), models=ARCHITECTURES)
    # Without CIFAR-100: SGD fits only 60 % of 4,000 of its images, far from the paper's regime.
    return replace(grid, datasets=("cifar10", "svhn")) if scale == "small" else grid


def table2(scale: Scale) -> Grid:
    """Lexicase against random and tournament selection."""
    grid = replace(_SCALES[scale], methods=("sgd", "random", "tournament", "lexicase"))
    return replace(grid, models=ARCHITECTURES) if scale == "paper" else grid


def table3(scale: Scale) -> Grid:
    """The size of the population."""
    grid = replace(_SCALES[scale], populations=(2, 4, 6, 8))
    if scale == "paper":
        return replace(grid, models=("vgg16", "resnet18"))
    if scale == "small":  # batches of 10, so that each of eight candidates takes 31 steps per generation
        return replace(grid, populations=(2, 4, 8), shared=grid.shared.replace(batch_size=10))
    return grid


def table4(scale: Scale) -> Grid:
    """The optimizer's momentum between generations."""
    grid = replace(_SCALES[scale], momenta=("none", "reset", "inherit"))
    return replace(grid, models=("vgg16", "resnet18")) if scale == "paper" else grid


def figure2(scale: Scale) -> Grid:
    """The networks whose representations are compared."""
    return _SCALES[scale]


EXPERIMENTS: Mapping[str, Callable[[Scale], Grid]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "figure2": figure2,
}


def paper_grid(experiment: str, scale: Scale) -> Grid:
    """The grid of one experiment at one scale."""
    if experiment not in EXPERIMENTS:
        raise unknown_name("experiment", experiment, EXPERIMENTS)
    if scale not in get_args(Scale):
        raise unknown_name("scale", scale, get_args(Scale))
    return EXPERIMENTS[experiment](scale)


def comparison(dataset: str, model: str) -> Grid:
    """Does gradient lexicase selection help on your data and model, also against SGD of equal cost?"""
    return Grid(
        datasets=(dataset,),
        models=(model,),
        methods=(
            "sgd",
            "sgd-matched",
            "sgd-matched-5e-4",
            "random",
            "tournament",
            "lexicase",
            "average",
            "average-outer-0.5",
            "expected",
            "expected-outer-0.5",
        ),
    )
