"""gradlex evaluate"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

if TYPE_CHECKING:
    from gradlex.tasks import ClassRow, ClassTable

_FEW = 10
"""Classes that are all shown; of more, the worst ones."""
_WIDTH = 80
_NAME = 14


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate a finished run on its test samples, or on other data."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    dataset: str | None = None
    """Other data, with the run's own normalization: a name, a .npz archive, or a folder (default: the run's data)."""
    predictions: Path | None = None
    """A .csv or .parquet file for the target, prediction and error of every sample."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""
    ema: bool = False
    """Evaluate the moving average of the parents, which a run trained with --ema keeps."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ... (default: auto, the accelerator if there is one)."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = """
        gradlex evaluate runs/cifar10
        gradlex evaluate runs/cifar10 --predictions predictions.csv
    """

    def __call__(self) -> None:
        """Print the task's metrics, and what they are made of."""
        from dataclasses import asdict

        from gradlex._console import console, metric_words, plural
        from gradlex._tables import check_table_file, write_table
        from gradlex.runs import evaluation

        if self.predictions is not None:
            check_table_file(self.predictions, (".csv", ".parquet"))
        found = evaluation(
            self.run, dataset=self.dataset, device=self.device, data_dir=self.data_dir, ema=self.ema
        )
        out = console()
        out.print(
            f"test: {metric_words(found.metrics, [asdict(each) for each in found.measures])}", soft_wrap=True
        )
        if found.classes is not None and len(found.classes.counts) > 1:
            names = found.class_names or tuple(map(str, range(len(found.classes.counts))))
            for line in class_lines(found.classes, names):
                out.print(line, soft_wrap=True)
        if self.predictions is not None:
            write_table(self.predictions, found.columns())
            out.print(f"{self.predictions}: {plural(len(found.errors), 'prediction')}", soft_wrap=True)


def class_lines(table: ClassTable, names: Sequence[str]) -> list[str]:
    """Class by class, then which were taken for which, in at most 80 columns; of many classes the worst ones."""
    few = len(table.counts) <= _FEW
    rows = table.rows() if few else table.worst(_FEW)
    title = "class" if few else f"worst {len(rows)} of {len(table.counts)}"
    lines = ["", f"{title:{_NAME}}  samples  correct  precision  most often mistaken for"]
    lines += [_row_line(row, names) for row in rows]
    digits = max(5, len(str(table.counts.max())) + 1)
    if few and _NAME + digits * len(table.counts) <= _WIDTH:
        head = "".join(f"{_cut(names[number], digits - 1):>{digits}}" for number in range(len(table.counts)))
        lines += ["", f"{'is / taken for':{_NAME}}{head}"]
        lines += [
            f"{_cut(names[number], _NAME):{_NAME}}{''.join(f'{count:{digits}}' for count in counts)}"
            for number, counts in enumerate(table.counts.tolist())
        ]
    else:
        mistakes = table.mistakes(_FEW)
        lines += ["", "most frequent mistakes"] if mistakes else []
        lines += [
            f"{_cut(names[own], 30):30}  taken for  {_cut(names[other], 28):28}{count:8}"
            for own, other, count in mistakes
        ]
    return lines


def _row_line(row: ClassRow, names: Sequence[str]) -> str:
    correct = f"{row.recall:.1%}" if row.samples else "-"
    precision = "-" if row.precision != row.precision else f"{row.precision:.1%}"
    other = "-" if row.taken_for is None else _cut(names[row.taken_for], 30)
    return f"{_cut(names[row.number], _NAME):{_NAME}}  {row.samples:7}  {correct:>7}  {precision:>9}  {other}".rstrip()


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"
