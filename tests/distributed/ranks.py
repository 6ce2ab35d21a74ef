"""One of four processes that try out many recipes in one start: `python ranks.py RANK FOLDER`.

They form process groups of 2, 3 and 4 in turn; each rank writes down what it found in each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import FileStore

import gradlex
from gradlex import InputError, Recipe
from gradlex.data import ArraySamples, crop_flip
from gradlex.engine import DistributedTeam, PopulationEngine, Worker
from gradlex.runs import resolve_method
from gradlex.selection import bind
from gradlex.tasks import Classification, Regression

CPU = torch.device("cpu")
PATIENCE = timedelta(seconds=60)


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(11)
    return make()


class Masked(nn.Module):
    """Batch norm, dropout, and buffers of types that not every backend can send."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.head = nn.Dropout(0.3), nn.Linear(8 * 16, 3)
        self.register_buffer("mask", torch.arange(128) % 5 > 0)
        self.register_buffer("phase", torch.ones(2, dtype=torch.complex64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int16), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
        return self.head(self.drop(self.norm(self.conv(x)).relu().flatten(1) * self.mask))


class Skipping(Masked):
    """Leaves out a branch at random, on each process for itself, as stochastic depth does."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.rest = nn.Linear(128, 3), nn.Linear(128, 3)

    def forward(self, x: Tensor) -> Tensor:
        outputs = super().forward(x)
        chance = float(torch.rand(())) if self.training else 0.9
        if chance > 0.3:
            outputs = outputs + self.branch(x.flatten(1).repeat(1, 4))
        return outputs + self.rest(x.flatten(1).repeat(1, 4)) if chance > 0.6 else outputs


def plain() -> nn.Module:
    """Neither batch norm nor dropout: whole batches and their parts give the same gradient."""
    conv = nn.Conv2d(2, 4, 3, padding=1)
    return nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def spare() -> nn.Module:
    """A plain network with a layer that it does not use."""
    network = plain()
    network[0].register_module("spare", nn.Linear(2, 2).double())
    return network


class Named(Masked):
    """Takes the image and its mean by their names."""

    def forward(self, *, image: Tensor, mean: Tensor) -> Tensor:
        return super().forward(image) * mean[:, None]


EXACT = (plain, spare)


@dataclass(frozen=True)
class Trial:
    """A recipe to compute alone and in teams of these sizes."""

    recipe: Recipe
    teams: tuple[int, ...]
    network: Callable[[], nn.Module] = Masked
    samples: int = 91
    offload: bool = False
    whole: bool = False
    """Write down every candidate's error on every case too."""
    task: type[Any] = Classification


BASE = Recipe(
    population=4,
    generations=3,
    batch_size=8,
    lr=0.1,
    seed=3,
    threads=1,
    precision="float32",
    momentum="reset",
)
ADAM = BASE.replace(optimizer="adamw", lr=0.01, momentum="inherit")
LOSSES = {"case_error": "loss"}
SMOOTH = BASE.replace(generations=2, lr=0.05, task_options=LOSSES)

TRIALS = {
    "reset": Trial(BASE, (2, 3, 4)),
    "inherit, 3 candidates": Trial(BASE.replace(population=3, momentum="inherit"), (2, 3)),
    "adamw": Trial(ADAM, (2, 3, 4)),
    "bfloat16": Trial(BASE.replace(precision="bfloat16"), (2, 4)),
    "2 threads": Trial(BASE.replace(threads=2, batch_size=32), (2,)),
    "memory": Trial(
        BASE.replace(
            selection="informed-lexicase", selection_options={"refresh": 2, "share": 0.3}, generations=4
        ),
        (2, 3),
    ),
    "5 candidates": Trial(BASE.replace(population=5, selection="lexicase", task_options=LOSSES), (2, 4)),
    "dalex": Trial(BASE.replace(selection="dalex"), (3,)),
    "offload": Trial(ADAM, (2,), offload=True),
    "regression": Trial(ADAM.replace(selection="epsilon-lexicase"), (2, 3), task=Regression),
    "names": Trial(ADAM.replace(population=3), (2, 3), Named),
    # More ranks than candidates. Batches of 10 and 9 do not divide by 4 or 2; one of 3 is fewer than two for each of
    # two processes.
    "1 candidate, together": Trial(SMOOTH.replace(population=1, batch_size=10), (2, 4), plain),
    "1 candidate, batches of 3": Trial(
        SMOOTH.replace(population=1, batch_size=3, momentum="inherit"), (2, 4), plain, samples=41
    ),
    "2 candidates, together": Trial(
        SMOOTH.replace(population=2, batch_size=9, momentum="inherit"), (4,), plain, whole=True
    ),
    "2 candidates with a layer to spare": Trial(
        SMOOTH.replace(population=2, momentum="inherit"), (2, 4), spare
    ),
    "1 candidate that skips": Trial(BASE.replace(population=1, momentum="inherit"), (2,), Skipping),
    "2 candidates that skip": Trial(BASE.replace(population=2), (4,), Skipping),
    "1 candidate with batch norm": Trial(BASE.replace(population=1, batch_size=10), (2,)),
}


def data(trial: Trial) -> ArraySamples:
    rng = np.random.default_rng(5)
    y = torch.from_numpy(rng.integers(0, 3, trial.samples))
    classes = rng.normal(size=(3, 2, 4, 4))
    x = torch.from_numpy(classes[y.numpy()] + 1.5 * rng.normal(size=(trial.samples, 2, 4, 4)))
    if trial.network is Named:
        return ArraySamples({"image": x.float(), "mean": x.mean((1, 2, 3)).float()}, y)
    if trial.task is Regression:
        y = torch.stack([y, y**2, -y], dim=1) + torch.from_numpy(rng.normal(size=(trial.samples, 3)))
    return ArraySamples(x if trial.network in EXACT else x.float(), y, augment=crop_flip(1))


def compute(trial: Trial, team: DistributedTeam | None = None) -> dict[str, Any]:
    """Records, final state, optimizer and memory of one run."""
    task, samples = trial.task(**trial.recipe.task_options), data(trial)
    if trial.task is Regression:
        task = task.fitted(None, [samples.targets])
    recipe = resolve_method(trial.recipe, task)
    worker = Worker(
        seeded(trial.network),
        samples,
        task,
        recipe,
        CPU,
        parallel=team.parallel if team else None,
        offload=trial.offload,
    )
    select = bind(recipe.selection, **recipe.selection_options)
    tables: list[Tensor] = []

    def watched(cases: Any, errors: Any, rng: Any) -> Any:
        if trial.whole:
            tables.append(torch.from_numpy(errors.matrix()))
        return select(cases, errors, rng)

    parent = worker.first_parent()
    parent = team.start_from(parent) if team else parent
    records = []
    for generation in gradlex.evolve(parent, PopulationEngine(worker, team), watched, recipe):
        parent = generation.parent
        choice = generation.choice
        records.append(
            {
                "generation": generation.generation,
                "losses": generation.losses,
                "selected": choice.index,
                "reason": choice.reason,
                "cases_used": choice.cases_used,
                "survivors": choice.survivors,
                "cases_evaluated": generation.cost.cases_evaluated,
            }
        )
    return {
        "records": records,
        "state": dict(parent.state),
        "optimizer": parent.optimizer,
        "memory": {name: torch.from_numpy(array) for name, array in parent.memory.items()},
        "tables": tables,
    }


def refusal(population: int) -> str | None:
    """What the present process group says to a population."""
    try:
        DistributedTeam(population, CPU)
    except InputError as error:
        return str(error)
    return None


def main(rank: int, folder: Path) -> None:
    for size in (4, 3, 2):
        if rank >= size:
            break
        store = FileStore(str(folder / f"meeting-{size}"), size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)
        for name, trial in TRIALS.items():
            if size in trial.teams:
                team = DistributedTeam(trial.recipe.population or 0, CPU)
                torch.save(compute(trial, team), folder / f"{name}-{size}-{rank}.pt")
        told = {population: refusal(population) for population in (1, 2, 3, 4)}
        torch.save(told, folder / f"refusals-{size}-{rank}.pt")
        dist.destroy_process_group()
    for name in list(TRIALS)[rank::4]:  # what one process computes alone
        torch.save(compute(TRIALS[name]), folder / f"{name}-alone.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
