"""gradlex.train with and without workers, as a script of a user's: `python library.py FOLDER`."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

import gradlex
from gradlex import InputError, Recipe
from gradlex.data import ArraySamples

FOLDER = Path(sys.argv[-1])
# The threads are named: those that are left open are shared out among the workers.
RECIPE = Recipe(
    population=3,
    generations=3,
    batch_size=8,
    momentum="inherit",
    parameter_groups="no-decay",
    clip_norm=1.0,
    accumulate=2,
    schedule_options={"warmup": 1},
    validation_fraction=0.2,
    keep="best",
    precision="float32",
    threads=1,
)


def network() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(128, 3),
    )


def data() -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(9)
    y = torch.from_numpy(rng.integers(0, 3, 60))
    noise = torch.from_numpy(rng.normal(size=(60, 2, 4, 4)))
    return (noise + y.view(-1, 1, 1, 1)).float(), y


def flipped(batch: Tensor, rng: np.random.Generator) -> Tensor:
    return batch.flip(3) if rng.random() < 0.5 else batch


def noted(batch: Tensor, rng: np.random.Generator) -> Tensor:
    """Flips too, and notes, once a process, whether this process's samples lie in shared memory."""
    note = FOLDER / f"samples-{os.getpid()}.json"
    if dist.is_initialized() and not note.exists():  # before, it is only tried out
        samples = [found for found in gc.get_objects() if type(found) is ArraySamples]
        parts = [part for found in samples for part in (found._x, found._y)]
        note.write_text(json.dumps([part.is_shared() for part in parts]))
    return flipped(batch, rng)


def refusal(**how: object) -> str | None:
    """What gradlex.train says against two workers, or as many as are asked for."""
    given = {"model": network(), "workers": 2, "recipe": RECIPE, **how}
    try:
        gradlex.train(data=data(), out=FOLDER / "refused", **given)
    except InputError as error:
        return str(error)
    return None


def main() -> None:
    class Local(nn.Sequential):
        pass

    refused = {
        "lambda": refusal(augment=lambda batch, rng: batch),
        "local class": refusal(model=Local(nn.Flatten(), nn.Linear(32, 3))),
        "uneven": refusal(workers=4),
    }
    (FOLDER / "refused.json").write_text(json.dumps(refused))
    os.environ.pop("GLOO_SOCKET_IFNAME", None)  # which the tests set
    before = dict(os.environ)
    x, y = data()
    for name, augment, how in (
        ("two", noted, {"workers": 2}),
        ("alone", flipped, {}),
        ("offload", flipped, {"placement": "offload"}),
    ):
        out = FOLDER / name
        gradlex.train(network(), (x, y), RECIPE, test=(x[:20], y[:20]), augment=augment, out=out, **how)
    (FOLDER / "environment-variables.json").write_text(json.dumps([before, dict(os.environ)]))


if __name__ == "__main__":
    main()
