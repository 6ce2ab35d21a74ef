"""gradlex evaluate"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import tyro

from gradlex._files import write_atomically
from gradlex.callbacks.progress import counted
from gradlex.cli.flags import Command
from gradlex.cli.train_command import metrics_text
from gradlex.errors import InputError

if TYPE_CHECKING:
    from gradlex.tasks.classification import ClassTable

_FEW, _WIDTH = 10, 80
_CORNER = "true \\ predicted"


class Evaluate(Command):
    """Evaluate a finished run on its test part, or on other data."""

    examples: ClassVar[str] = """
        gradlex evaluate runs/digits-lexicase-seed0
        gradlex evaluate runs/photos --dataset new-photos/ --out errors.csv
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    dataset: Annotated[str | None, tyro.conf.arg(metavar="NAME|PATH")] = None
    """Other data: a dataset, an .npz archive, a folder of images or a table (default: the run's test part)."""
    model: Annotated[str | None, tyro.conf.arg(metavar="MODULE:FUNCTION")] = None
    """For a run trained from Python: the function that makes its network."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """A file for target, prediction and error of each sample."""
    device: Annotated[str, tyro.conf.arg(metavar="auto|cpu|cuda")] = "auto"
    """Where to compute, also cuda:1, mps, ... (default: the accelerator if there is one)."""

    def __call__(self) -> None:
        """Print the metrics, and for a classification the classes and what they are mistaken for."""
        check_csv(self.out)
        from gradlex.runs import load

        found = load(self.run, self.model, device=self.device).examine(self.dataset)
        print(metrics_text(f"{counted(len(found.errors), 'sample')}:", found.metrics, found.measures))
        if found.classes is not None:
            names = found.class_names or [str(number) for number in range(len(found.classes.counts))]
            print("\n".join(class_lines(found.classes, names)))
        if self.out is not None:
            write_csv(self.out, found.columns())


def check_csv(path: Path | None) -> None:
    """Raise an error for a file that can't be written, before anything is computed for it."""
    if path is not None and (path.suffix.lower() != ".csv" or path.is_dir() or not path.absolute().parent.is_dir()):
        raise InputError(f"{path} cannot be written: name a .csv file in a folder that exists.")


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write the columns, whole or not at all, and print where they are."""
    import pandas as pd

    frame = pd.DataFrame(columns)
    write_atomically(path, frame.to_csv(index=False).encode())
    print(f"\n{counted(len(frame), 'row')} in {path}")


def class_lines(table: ClassTable, names: Sequence[str]) -> list[str]:
    """Which classes were predicted as which, within 80 columns; of many classes the worst ones."""
    width = max(5, len(str(table.counts.max())) + 1)
    correct = ["-" if math.isnan(share) else f"{share:.1%}" for share in table.recall]
    if len(_CORNER) + width * len(names) + 9 <= _WIDTH:
        head = "".join(f"{_cut(name, width - 1):>{width}}" for name in names)
        rows = ["".join(f"{count:{width}}" for count in row) for row in table.counts.tolist()]
        lines = [f"{_cut(own, 16):16}{row}{share:>9}" for own, row, share in zip(names, rows, correct, strict=True)]
        return ["", f"{_CORNER}{head}  correct", *lines]
    worst = np.argsort(table.recall, kind="stable")[:_FEW]
    lines = [f"{_cut(names[own], 40):40}{correct[own]:>9}" for own in worst]
    mistakes = [
        f"{_cut(names[own], 30):30} predicted as {_cut(names[other], 28):28}{count:6,}"
        for own, other, count in table.mistakes(_FEW)
    ]
    return [
        "",
        f"{f'worst of {len(names)} classes':40}  correct",
        *lines,
        "",
        "most frequent mistakes",
        *mistakes,
    ]


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
