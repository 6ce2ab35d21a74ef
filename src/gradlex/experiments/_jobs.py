"""From an experiment's cells to its jobs: recipes resolved against their data, runs named by what identifies them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from gradlex.errors import InputError
from gradlex.experiments._grids import Cell
from gradlex.experiments._plan import RUNS, run_name
from gradlex.recipe import Recipe
from gradlex.runs import Resolver, RunFolder, different_beginning

State: TypeAlias = Literal["done", "interrupted", "to do"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of an experiment: its method, its resolved recipe, and its folder."""

    method: str
    recipe: Recipe
    folder: Path
    fingerprint: str
    """Of the data."""
    begin_with: Path | None = None
    """The folder of an SGD run of the same experiment that is the same until this one branches."""
    keep_checkpoints: tuple[int, ...] = ()
    """Generations in which other runs of the experiment branch off this one."""

    @property
    def beginning(self) -> Path | None:
        """The run to begin with, once it has come to where this one branches."""
        if self.begin_with is None:
            return None
        kept = self.begin_with / "checkpoint"
        return self.begin_with if any(kept.glob(f"{self.recipe.branch:08d}-*.safetensors")) else None

    @property
    def state(self) -> State:
        """How far the run has come; a crash leaves it interrupted."""
        if (self.folder / "result.json").exists():
            return "done"
        return "interrupted" if (self.folder / "recipe.json").exists() else "to do"

    @property
    def is_held(self) -> bool:
        """Whether a process is running it right now."""
        return RunFolder(self.folder).is_held

    @property
    def result(self) -> dict[str, Any]:
        """What result.json holds; refused where the run has none."""
        try:
            found = json.loads((self.folder / "result.json").read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(f"{self.folder / 'result.json'} cannot be read: {error}.") from error
        if not isinstance(found, dict):
            raise InputError(f"{self.folder / 'result.json'} is not the result of a run.")
        return found

    @property
    def generations_done(self) -> int:
        """Lines of generations.jsonl; a resumed run may begin a little earlier."""
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

    With `download=False` data that is not on this machine is refused (MissingDataError).
    """
    resolver = Resolver(device=device, data_dir=data_dir, download=download)
    jobs = []
    for cell in cells:
        resolved = resolver.resolve(cell.recipe)
        fingerprint = str(resolved.data["fingerprint"])
        folder = root / RUNS / run_name(resolved.recipe, fingerprint)
        jobs.append(Job(method=cell.method, recipe=resolved.recipe, folder=folder, fingerprint=fingerprint))
    _check_doubles(jobs)
    return _sharing(jobs)


def _sharing(jobs: Sequence[Job]) -> list[Job]:
    """The jobs; those that branch off plain SGD begin with its run: the bits are the same, and computed once."""
    plain = [job for job in jobs if job.recipe.population == 1 and job.recipe.branch == 0]
    first: dict[Path, Path] = {}
    branches: dict[Path, set[int]] = {}
    for job in jobs:
        if not job.recipe.branch:
            continue
        for other in plain:
            same = other.fingerprint == job.fingerprint and not different_beginning(job.recipe, other.recipe)
            if same and job.recipe.branch <= other.recipe.require("generations"):
                first[job.folder] = other.folder
                branches.setdefault(other.folder, set()).add(job.recipe.branch)
                break
    return [
        replace(
            job,
            begin_with=first.get(job.folder),
            keep_checkpoints=tuple(sorted(branches.get(job.folder, ()))),
        )
        for job in jobs
    ]


def _check_doubles(jobs: Sequence[Job]) -> None:
    """Refuse what would run twice, and data that tables could not tell apart."""
    folders: dict[Path, Job] = {}
    names: dict[str, str] = {}
    for job in jobs:
        here, twin = job.recipe.dataset, folders.setdefault(job.folder, job)
        if twin is not job:
            there = twin.recipe.dataset
            same = (
                f"{there} and {here} hold the same samples" if there != here else f"{job.title} appears twice"
            )
            raise InputError(f"{same}: name it once.")
        namesake = names.setdefault(Path(here).name, here)
        if namesake != here:
            raise InputError(f"{namesake} and {here} have the same name, which tables go by: rename one.")
