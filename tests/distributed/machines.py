"""One of three ranks on what they take for two machines: `python machines.py RANK FOLDER`.

The second machine has one rank, more CPUs, bfloat16 of its own, and does not see the run folder.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before the group is made: see docs/parallel.md
from torch import Tensor, nn
from torch.distributed import FileStore

import gradlex
from gradlex import InputError, Parent, Recipe
from gradlex.data import ArraySamples
from gradlex.runs import _resolve, _resources

RANK, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
MACHINE = RANK // 2
RECIPE = Recipe(
    population=3,
    generations=1,
    batch_size=8,
    augment="flip",
    momentum="inherit",
    schedule="constant",
    lr=0.01,
)
LONGER = Recipe(generations=3, schedule="constant", lr=0.01)  # the rest is taken from the run


def network() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3))


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    y = torch.arange(60) % 3
    return torch.randn(60, 2, 4, 4) + y.view(-1, 1, 1, 1), y


def note(name: str, found: Any) -> None:
    torch.save(found, FOLDER / f"{name}-{RANK}.pt")


def note_copies(parent: Parent, before: Parent, candidates: object) -> Parent:
    """A promotion step, since callbacks are rank 0's alone."""
    gc.collect()
    samples = [found for found in gc.get_objects() if type(found) is ArraySamples]
    copies = {found._x.data_ptr(): found._x.is_shared() for found in samples}
    note("shared", list(copies.values()))
    return parent


def train(name: str, recipe: Recipe, **how: Any) -> None:
    run = gradlex.train(network(), data(), recipe, **how)
    note(name, {"recipe": run.recipe.to_dict(), "state": run.model.state_dict()})


def refusal(given: tuple[Tensor, Tensor]) -> str | None:
    try:
        gradlex.train(network(), given, RECIPE, out=FOLDER / f"refused-{RANK}")
    except InputError as error:
        return str(error)
    return None


def main() -> None:
    _resources.cpus = lambda: (4, 16)[MACHINE]
    _resolve.native_bfloat16 = lambda device: MACHINE == 1
    store = FileStore(str(FOLDER / "meeting"), 3)
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=3, timeout=timedelta(seconds=60))
    places = {"GROUP_RANK": MACHINE, "LOCAL_RANK": RANK % 2, "LOCAL_WORLD_SIZE": 2 - MACHINE}
    os.environ.update({name: str(value) for name, value in places.items()})
    out = FOLDER / ("run" if MACHINE == 0 else "unseen")
    train("first", RECIPE, out=out, promotion_steps=[note_copies])
    note("environment", json.loads((FOLDER / "run" / "environment.json").read_text()))

    x, y = data()
    note("refused", refusal((x + MACHINE, y)))

    for name in ("GROUP_RANK", "LOCAL_RANK"):  # not every launcher sets them
        del os.environ[name]
    train("longer", LONGER, out=out, resume=True)
    dist.destroy_process_group()
    if RANK == 0:
        train("alone", RECIPE.replace(generations=3, threads=1))  # what rank 0 of three takes of its four


if __name__ == "__main__":
    main()
