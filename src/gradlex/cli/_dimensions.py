"""The flags that experiments share: what changes their grid, and how they are carried out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from gradlex.errors import InputError, unknown_name
from gradlex.experiments import OWN_FIELDS, Grid
from gradlex.recipe import Precision, Recipe

_SHARED = ("train_size", "batch_size", "lr", "weight_decay", "augment", "width", "precision", "threads")
_OWN = {"dataset", "model", "population", "momentum", "generations", "seed", *_SHARED}


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """What differs from the experiment's own grid; what is not given leaves it."""

    methods: tuple[str, ...] = ()
    """Which methods, of: sgd, sgd-matched, sgd-matched-5e-4, random, tournament, lexicase, average, expected, ..."""
    populations: tuple[int, ...] = ()
    """Sizes of the population."""
    momenta: tuple[str, ...] = ()
    """The optimizer's state between generations: none, reset, inherit."""
    seeds: int | None = None
    """How many seeds: 0, 1, ..."""
    generations: int | None = None
    """Epochs of the SGD baseline; a population of p has p + 1 times as many generations."""
    train_size: int | None = None
    """Train on a stratified part of this many samples."""
    batch_size: int | None = None
    """Samples a gradient step."""
    lr: float | None = None
    """Initial learning rate."""
    weight_decay: float | None = None
    """Weight decay, but for the methods that have their own."""
    augment: str | None = None
    """Augmentation of training batches: none, crop4 (or any padding), flip, or crop4,flip."""
    width: float | None = None
    """Scale of the network's hidden layers."""
    precision: Precision | None = None
    """bfloat16 autocast, or float32."""
    threads: int | None = None
    """Threads a run computes with. It changes a network's last bits, so it is part of what a run is. None: 1."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Any other field of a recipe, for all runs: optimizer=adamw schedule=constant."""

    def applied(self, grid: Grid) -> Grid:
        """The grid with what these flags say."""
        _check_fields(self.recipe)
        ranges = {name: getattr(self, name) for name in ("methods", "populations", "momenta")}
        shared = {name: getattr(self, name) for name in _SHARED}
        given = {name: value for name, value in shared.items() if value is not None}
        return dataclasses.replace(
            grid,
            **{name: values for name, values in ranges.items() if values},
            seeds=grid.seeds if self.seeds is None else self.seeds,
            epochs=grid.epochs if self.generations is None else self.generations,
            shared=grid.shared.replace(**given, **self.recipe),
        )


@dataclass(frozen=True, kw_only=True)
class Carried:
    """How it is carried out."""

    out: Path | None = None
    """The folder for the runs and the report. None: one under runs/."""
    jobs: int | Literal["auto"] = "auto"
    """Runs at the same time. auto: one a processor, or one an accelerator."""
    listing: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Only list the runs, what is done of them, and how long the rest may take."""
    evaluations: int = 10
    """How often a run is tested on its way."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, ..."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept. None: the user's cache folder."""

    def check(self) -> None:
        """Refuse numbers below one."""
        for name in ("jobs", "evaluations"):
            value = getattr(self, name)
            if value != "auto" and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}.")


def _check_fields(recipe: Mapping[str, Any]) -> None:
    known = {f.name for f in dataclasses.fields(Recipe)}
    for name in recipe:
        if name not in known:
            raise unknown_name("recipe field", name, known)
        if name in _OWN:
            raise InputError(f"recipe field {name} has a flag of its own: give it there.")
        if name in OWN_FIELDS:
            raise InputError(
                f"recipe field {name} is what methods differ by: choose among --methods instead."
            )
