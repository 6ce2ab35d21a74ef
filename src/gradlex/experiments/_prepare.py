"""From an experiment's cells to its jobs: data loaded once, recipes resolved, runs named by what identifies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import torch

from gradlex.data import Arrays, load
from gradlex.errors import InputError
from gradlex.experiments._grid import Cell
from gradlex.experiments._identity import run_name
from gradlex.experiments._plan import RUNS
from gradlex.recipe import Recipe
from gradlex.runs import RunFolder, named_problem, resolved_for

State: TypeAlias = Literal["done", "interrupted", "to do"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of an experiment: its method, its resolved recipe, and its folder."""

    method: str
    recipe: Recipe
    folder: Path
    fingerprint: str
    """Of the data."""
    samples: int
    """Training samples."""
    input_shape: tuple[int, ...]
    """Of one sample."""

    @property
    def state(self) -> State:
        """How far the run has come; a crash leaves it interrupted."""
        if (self.folder / "result.json").exists():
            return "done"
        return "interrupted" if RunFolder(self.folder).holds_run else "to do"

    @property
    def generations_done(self) -> int:
        """Lines of generations.jsonl; a run that goes on may begin a little earlier."""
        records = self.folder / "generations.jsonl"
        return records.read_bytes().count(b"\n") if records.exists() else 0

    @property
    def title(self) -> str:
        """The run in a few words."""
        recipe = self.recipe
        population = "" if recipe.population == 1 else f", p = {recipe.population}, {recipe.momentum}"
        return (
            f"{self.method} ({recipe.model} on {Path(recipe.dataset).name}{population}), seed {recipe.seed}"
        )


def prepare(
    cells: Sequence[Cell],
    root: Path,
    *,
    device: torch.device,
    data_dir: Path | None = None,
    download: bool = True,
) -> list[Job]:
    """The jobs of the cells, under one root; what no run can do is refused here, before any run begins.

    Where `download` is False, data that is not on this machine is refused.
    """
    loaded: dict[tuple[object, ...], tuple[Arrays, str]] = {}
    tried: set[tuple[object, ...]] = set()
    jobs = []
    for cell in cells:
        recipe = cell.recipe
        data = (recipe.dataset, recipe.train_size, recipe.test_fraction, recipe.image_size)
        if data not in loaded:
            arrays = load(recipe, data_dir, download=download)
            loaded[data] = arrays, arrays.fingerprint()
        arrays, fingerprint = loaded[data]
        if recipe.promotion_cases is not None:  # few samples have no more cases
            recipe = recipe.replace(promotion_cases=min(recipe.promotion_cases, len(arrays.y_train)))
        resolved = resolved_for(recipe, arrays, device)
        if (*data, recipe.model, recipe.width) not in tried:  # a model that does not take the data
            named_problem(recipe, device=device, data_dir=data_dir, arrays=arrays)
            tried.add((*data, recipe.model, recipe.width))
        folder = root / RUNS / run_name(resolved, fingerprint)
        jobs.append(
            Job(
                method=cell.method,
                recipe=resolved,
                folder=folder,
                fingerprint=fingerprint,
                samples=len(arrays.y_train),
                input_shape=arrays.input_shape,
            )
        )
    _refuse_doubles(jobs)
    return jobs


def _refuse_doubles(jobs: Sequence[Job]) -> None:
    """Refuse what would run twice, and data that tables could not tell apart."""
    folders: dict[Path, Job] = {}
    names: dict[str, str] = {}
    for job in jobs:
        here, twin = job.recipe.dataset, folders.setdefault(job.folder, job)
        if twin is not job:
            there = twin.recipe.dataset
            same = (
                f"{there} and {here} hold the same samples"
                if there != here
                else f"{job.title} stands there twice"
            )
            raise InputError(f"{same}: name it once.")
        namesake = names.setdefault(Path(here).name, here)
        if namesake != here:
            raise InputError(f"{namesake} and {here} have the same name, and tables go by it: rename one.")
