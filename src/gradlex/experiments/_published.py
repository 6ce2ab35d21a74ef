"""The numbers of the paper's four tables (Ding and Spector, ICLR 2022), as data of this package."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, kw_only=True)
class Published:
    """One cell of a table: final test accuracy in per cent over three seeds."""

    table: str
    dataset: str
    model: str
    method: str
    population: int
    momentum: str
    accuracy: float
    std: float | None
    """None where the paper gives none (tables 3 and 4)."""


@functools.cache
def published(table: str) -> tuple[Published, ...]:
    """The cells of one table, in the paper's order: table1, table2, table3 or table4."""
    text = resources.files("gradlex.experiments").joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(
        Published(
            table=row["table"],
            dataset=row["dataset"],
            model=row["model"],
            method=row["method"],
            population=int(row["population"]),
            momentum=row["momentum"],
            accuracy=float(row["accuracy"]),
            std=float(row["std"]) if row["std"] else None,
        )
        for row in csv.DictReader(text.splitlines())
        if row["table"] == table
    )
