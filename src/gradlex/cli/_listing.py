"""What an experiment would run: its settings, what is done of it, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from gradlex.cli._console import console
from gradlex.cli._experiment_progress import rough_time
from gradlex.experiments import Cell

_WORDS = ("method", "dataset", "model")


def print_runs(
    cells: Sequence[Cell], states: Sequence[str], seconds: Sequence[float | None], at_once: int, root: Path
) -> None:
    """Print a line a run, and the time of all that are not done; None is a length that is not known.

    What all runs have in common is told once, so that the lines are short.
    """
    out = console()
    lines = [_settings(cell) for cell in cells]
    common = {
        name: value
        for name, value in lines[0].items()
        if name != "method" and all(line[name] == value for line in lines)
    }
    table = Table(box=box.SIMPLE)
    table.add_column("run", justify="right")
    for name in lines[0]:
        if name not in common:
            table.add_column(name, justify="left" if name in _WORDS else "right", no_wrap=name == "method")
    table.add_column("state", no_wrap=True)
    table.add_column("estimate", justify="right", no_wrap=True)
    for number, (line, state, guess) in enumerate(zip(lines, states, seconds, strict=True), start=1):
        told = [value for name, value in line.items() if name not in common]
        table.add_row(
            str(number), *told, state, "-" if guess is None or state == "done" else rough_time(guess)
        )
    if common:
        out.print(
            "all runs: " + ", ".join(f"{name} {value}" for name, value in common.items()), soft_wrap=True
        )
    out.print(table)
    left = [guess for guess, state in zip(seconds, states, strict=True) if state != "done"]
    known = [guess for guess in left if guess is not None]
    unknown = f", {len(left) - len(known)} of unknown length not counted" if len(known) < len(left) else ""
    time = (
        f": roughly {rough_time(max(sum(known) / at_once, *known))}{unknown}, {at_once} at a time"
        if known
        else ""
    )
    out.print(f"{len(cells)} runs, {len(left)} to do{time}, into {root}", soft_wrap=True)


def _settings(cell: Cell) -> dict[str, str]:
    recipe = cell.recipe
    return {
        "method": cell.method,
        "dataset": Path(recipe.dataset).name,
        "model": recipe.model,
        "p": str(recipe.population or 1),
        "momentum": recipe.momentum or "inherit",
        "generations": str(recipe.generations),
        "batch": str(recipe.batch_size),
        "lr": f"{recipe.lr:g}",
        "decay": f"{recipe.weight_decay:g}",
        "seed": str(recipe.seed),
    }
