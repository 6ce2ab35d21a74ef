"""What an experiment would run: its settings, what is done of it, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from gradlex.cli._console import console
from gradlex.cli._experiment_progress import duration
from gradlex.experiments import Cell

_WORDS = ("method", "dataset", "model")
_COLUMNS = (
    "run",
    *_WORDS,
    "p",
    "momentum",
    "generations",
    "batch",
    "lr",
    "decay",
    "seed",
    "state",
    "estimate",
)


def print_runs(
    cells: Sequence[Cell], states: Sequence[str], seconds: Sequence[float | None], at_once: int, root: Path
) -> None:
    """Print a line a run, and the time of all that are not done; None is a length that is not known."""
    table = Table(box=box.SIMPLE)
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in _WORDS else "right")
    for number, (cell, state, guess) in enumerate(zip(cells, states, seconds, strict=True), start=1):
        recipe = cell.recipe
        table.add_row(
            str(number),
            cell.method,
            Path(recipe.dataset).name,
            recipe.model,
            str(recipe.population or 1),
            recipe.momentum or "inherit",
            str(recipe.generations),
            str(recipe.batch_size),
            f"{recipe.lr:g}",
            f"{recipe.weight_decay:g}",
            str(recipe.seed),
            state,
            "-" if guess is None or state == "done" else duration(guess),
        )
    console().print(table)
    left = [guess for guess, state in zip(seconds, states, strict=True) if state != "done"]
    known = [guess for guess in left if guess is not None]
    unknown = f", {len(left) - len(known)} of unknown length not counted" if len(known) < len(left) else ""
    console().print(
        f"{len(cells)} runs, {len(left)} of them to do: roughly {duration(sum(known) / at_once)}{unknown}, "
        f"{at_once} at a time, from a short measurement of each network. Into {root}.",
        soft_wrap=True,
    )
