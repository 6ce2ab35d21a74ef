"""What an experiment would run, one line a run: its settings, and how far it has come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from gradlex._console import console, plural
from gradlex.experiments import Cell

_WORDS = ("method", "dataset", "model")


def print_runs(runs: Sequence[tuple[Cell, str]], root: Path) -> None:
    """Print a line a run; what all runs have in common is said once, so that the lines are short."""
    out = console()
    lines = [_settings(cell) for cell, _ in runs]
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
    for number, (line, (_, state)) in enumerate(zip(lines, runs, strict=True), start=1):
        table.add_row(str(number), *(value for name, value in line.items() if name not in common), state)
    if common:
        shared = ", ".join(f"{name} {value}" for name, value in common.items())
        out.print(f"all runs: {shared}", soft_wrap=True)
    out.print(table)
    states = Counter(state for _, state in runs)
    missing = ", data missing (it will be downloaded)" if states["data missing"] else ""
    out.print(
        f"{plural(len(runs), 'run')}, {len(runs) - states['done']} to do{missing}, in {root}", soft_wrap=True
    )


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
