"""Branched, varied and patient runs with one worker, two and four, and resumed: `python variation.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from library import data, flipped, network

import gradlex
from gradlex import Recipe

FOLDER = Path(sys.argv[-1])
BASE = Recipe(
    population=2, generations=6, batch_size=8, precision="float32", threads=1, branch_at=0.34, seed=5, lr=0.05
)
VARIED = {
    "vary": {"lr": "0.5|1|2", "weight_decay": "0|1e-3", "augment": "none|flip"},
    "inherit_variation": True,
    "tail": "constant",
    "tail_mean": True,
}
RECIPES = {
    "winner": BASE.replace(**VARIED, momentum="inherit", cases="augmented", selection="tournament"),
    "expected": BASE.replace(**VARIED, promotion="expected", parts="all", cases="held-out", ema=0.5),
    "patient": BASE.replace(
        branch_at=0.0, generations=30, lr=0.5, validation_fraction=0.3, patience=2, keep="best"
    ),
}


class Stop(gradlex.Callback):
    """Interrupts the run after this generation."""

    def __init__(self, generation: int) -> None:
        self.generation = generation

    def on_generation(self, run: gradlex.callbacks.LiveRun, record: gradlex.Record) -> None:
        if record.generation == self.generation:
            raise gradlex.errors.InterruptedRun(2, "")


def train(name: str, folder: str, *, workers: int = 1, resume: bool = False, stop: int | None = None) -> None:
    x, y = data()
    callbacks = [] if stop is None else [Stop(stop)]
    try:
        gradlex.train(
            network(),
            (x, y),
            RECIPES[name],
            test=(x[:20], y[:20]),
            augment=flipped,
            out=FOLDER / f"{name}-{folder}",
            workers=workers,
            resume=resume,
            callbacks=callbacks,
        )
    except gradlex.errors.InterruptedRun:
        assert stop is not None


def main() -> None:
    for name in RECIPES:
        train(name, "alone")
        train(name, "two", workers=2)
        if name == "patient":
            continue
        # Interrupted before the branch and after it, with another number of workers each time.
        train(name, "resumed", stop=0)
        train(name, "resumed", resume=True, workers=2, stop=3)
        train(name, "resumed", resume=True)
    train("winner", "four", workers=4)  # two for each candidate, and before the branch two for the one


if __name__ == "__main__":
    main()
