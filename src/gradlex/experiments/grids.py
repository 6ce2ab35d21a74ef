"""The paper's tables and its figure 2 as grids of comparisons, at three scales, with the numbers it published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources

import pandas as pd

from gradlex.errors import unknown_name
from gradlex.recipe import Recipe

ARCHITECTURES = ("vgg16", "resnet18", "resnet50", "densenet121", "mobilenetv2", "senet18", "efficientnetb0")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Datasets x models x methods x seeds, and the recipe that all runs share.

    Examples:
        >>> from gradlex.experiments.grids import paper_grid
        >>> grid = paper_grid("table3", "paper")
        >>> grid.models, grid.num_seeds
        (('vgg16', 'resnet18'), 3)
    """

    datasets: tuple[str, ...] = ("cifar10",)
    models: tuple[str, ...] = ("resnet18",)
    methods: tuple[str, ...] = ("sgd", "lexicase")
    num_seeds: int = 3
    epochs: int = 200
    """Of the SGD baseline."""
    recipe: Recipe


_PAPER = Recipe(lr=0.1, weight_decay=1e-4, augment="crop4,flip", precision="float32")
_SCALES: Mapping[str, Grid] = {
    # The setting of Ding and Spector, as far as the paper states it.
    "paper": Grid(recipe=_PAPER),
    # About three hours a table on two CPU cores, near the paper's regime: SGD fits its training images.
    "small": Grid(models=("resnet20",), epochs=60, recipe=_PAPER.replace(batch_size=20, train_size=2_500)),
    # A minute, offline, to see that everything works; its numbers mean nothing.
    "smoke": Grid(datasets=("digits",), models=("small-cnn",), num_seeds=1, epochs=2, recipe=Recipe(train_size=400)),
}

_METHODS: Mapping[str, str] = {
    "table1": "sgd lexicase",
    "table2": "sgd random tournament lexicase",
    "table3": "sgd lexicase-p2 lexicase lexicase-p6 lexicase-p8",  # lexicase has p = 4
    "table4": "sgd lexicase-no-momentum lexicase lexicase-inherit",  # lexicase resets it
    "figure2": "sgd lexicase",
}


def paper_grid(table: str, scale: str = "paper") -> Grid:
    """The grid of table1, table2, table3, table4 or figure2, at the scale smoke, small or paper."""
    if table not in _METHODS:
        raise unknown_name("table", table, _METHODS)
    if scale not in _SCALES:
        raise unknown_name("scale", scale, _SCALES)
    grid = replace(_SCALES[scale], methods=tuple(_METHODS[table].split()))
    if table == "table1" and scale != "smoke":
        # Without CIFAR-100 at the small scale: SGD doesn't fit 2,500 of its images.
        grid = replace(grid, datasets=("cifar10", "cifar100", "svhn") if scale == "paper" else ("cifar10", "svhn"))
    if table == "table3" and scale == "small":  # so that each of eight candidates takes 31 steps
        grid = replace(grid, recipe=grid.recipe.replace(batch_size=10))
    if scale == "paper":
        models = {"table1": ARCHITECTURES, "table2": ARCHITECTURES, "figure2": ("resnet18",)}
        grid = replace(grid, models=models.get(table, ("vgg16", "resnet18")))
    return grid


def published(table: str) -> pd.DataFrame:
    """The paper's numbers for a table: dataset, model, method, accuracy in percent, standard deviation.

    Examples:
        >>> from gradlex.experiments import published
        >>> cell = published("table1").iloc[1]
        >>> cell.dataset, cell.model, cell.method, float(cell.accuracy)
        ('cifar10', 'vgg16', 'lexicase', 93.4)
    """
    with resources.files("gradlex.experiments").joinpath("published.csv").open() as file:
        found = pd.read_csv(file)
    return found[found.table == table].reset_index(drop=True)
