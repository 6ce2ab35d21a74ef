"""The paper's experiments as grids of recipes, at three scales.

paper: the setting of Ding and Spector (ICLR 2022) to the letter, as far as it is told.
small: for two processor cores, each table in about three hours: a residual network of 20 layers on 2,500 pictures,
    near the paper's regime (SGD fits its training pictures, a candidate takes at least 30 steps a generation).
smoke: a minute, offline, to see that everything works; its numbers mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from gradlex.errors import unknown_name
from gradlex.experiments._grid import Grid
from gradlex.recipe import Recipe

Scale: TypeAlias = Literal["smoke", "small", "paper"]

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
    # Without CIFAR-100: of 4,000 of its pictures SGD fits 60 %, far from the paper's regime.
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
    if scale == "small":  # batches of 10, so that each of eight candidates takes 31 steps a generation
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
    """Whether gradient lexicase selection helps on one's own data and model, against SGD of equal cost too."""
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
