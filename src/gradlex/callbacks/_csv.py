"""CSV: one row per generation, for a spreadsheet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path

from gradlex._files import write_whole
from gradlex.callbacks._callback import LiveRun
from gradlex.callbacks._logger import Logger, folder_of


class CSV(Logger):
    """A table in `path` (default: log.csv in the run folder).

    Examples:
        >>> import torch
        >>> import gradlex
        >>> data = torch.randn(60, 4), torch.arange(60) % 2
        >>> recipe = gradlex.Recipe(generations=2, batch_size=16)
        >>> run = gradlex.train(torch.nn.Linear(4, 2), data, recipe, callbacks=[gradlex.callbacks.CSV("log.csv")])
        >>> with open("log.csv") as file:
        ...     print(len(file.readlines()))  # a header, and a row for each generation
        3
    """

    name = "csv"

    def __init__(self, path: str | Path | None = None) -> None:
        self._given = None if path is None else Path(os.path.abspath(path))

    def open(self, run: LiveRun) -> int:
        """A resumed run writes the table anew, from its records."""
        self._path = folder_of(run, self._given, "log.csv")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._columns: list[str] = []
        self._rows: list[dict[str, float]] = []
        return 0

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """Append a row; a number that is there for the first time adds a column."""
        row = {"generation": generation, **numbers}
        self._rows.append(row)
        new = [name for name in row if name not in self._columns]
        self._columns += new
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, self._columns)
        if new:
            table.writeheader()
            table.writerows(self._rows)
            write_whole(self._path, text.getvalue().encode())
            return
        table.writerow(row)
        with open(self._path, "ab") as file:
            file.write(text.getvalue().encode())

    def close(self, run: LiveRun) -> None:
        """Every row is on disk already."""
