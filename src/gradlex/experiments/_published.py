"""The numbers of the paper's four tables (Ding and Spector, ICLR 2022), as data of this package."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, kw_only=True)
class Published:
    """One cell of a table: final test accuracy in per cent over three seeds.

    Examples:
        >>> from gradlex.experiments import published
        >>> cell = published("table1")[0]
        >>> cell.dataset, cell.model, cell.method
        ('CIFAR-10', 'VGG16', 'sgd')
    """

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
    """The cells of one table, in the paper's order: table1, table2, table3 or table4.

    Examples:
        >>> from gradlex.experiments import published
        >>> vgg = [cell for cell in published("table1") if (cell.dataset, cell.model) == ("CIFAR-10", "VGG16")]
        >>> [(cell.method, cell.accuracy) for cell in vgg]
        [('sgd', 92.85), ('lexicase', 93.4)]
    """
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
