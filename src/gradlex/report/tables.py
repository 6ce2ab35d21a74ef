"""Tables: of results and cost, of comparisons, of how selection went; as text within 80 columns and as Markdown."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

import pandas as pd
import rich.box
from rich.console import Console
from rich.table import Table as RichTable

from gradlex.report.decisions import Decision, values
from gradlex.report.frames import Study
from gradlex.report.words import NONE, count, duration, title_of, unit_of

WIDTH = 80


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells of text under names: the first `words` columns hold words, the others numbers.

    A terminal shows the first `narrow` columns; `rest` explains the others.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    rest: str = ""
    words: int = 1
    narrow: int = 99

    def text(self, width: int = WIDTH) -> str:
        """For a terminal."""
        table = RichTable(box=rich.box.SIMPLE_HEAD, pad_edge=False, title=self.title, title_justify="left")
        for place, name in enumerate(self.columns[: self.narrow]):
            left = place < self.words
            table.add_column(name, justify="left" if left else "right", no_wrap=not left)
        for row in self.rows:
            table.add_row(*row[: self.narrow])
        options: Any = {"markup": False, "emoji": False, "highlight": False, "force_jupyter": False}
        console = Console(file=io.StringIO(), width=width, **options)
        console.print(table, self.note, sep="")
        printed: str = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n") + "\n"

    def markdown(self) -> str:
        """For a page of text."""
        marks = [":---" if place < self.words else "---:" for place in range(len(self.columns))]
        lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in (self.columns, *self.rows)]
        table = "\n".join([lines[0], f"| {' | '.join(marks)} |", *lines[1:]])
        note = " ".join(filter(None, (self.note, self.rest)))
        return "\n\n".join(part for part in (self.title and f"**{self.title}**", table, note) if part) + "\n"


def tables(study: Study, found: Sequence[Decision]) -> list[Table]:
    """All tables of an experiment whose comparisons were decided."""
    made = results_table(study), comparisons_table(found) if found else None, selection_table(study)
    return [table for table in made if table]


def results_table(study: Study) -> Table:
    """What each method reaches, and what it costs."""
    unit, runs = unit_of(study.metric, study.fraction), study.runs
    rows = []
    for method in study.methods:
        mine = runs[(runs.method == method) & runs.finished]
        found = [values(mine, method, study.metric), _column(mine, f"train_{study.metric}")]
        cells = [_spread([unit.scale * value for value in each.values()], unit.percent) for each in found]
        costs = [_mean(mine, name) for name in ("samples_trained", "critical_path", "cases_evaluated")]
        time = duration(_mean(mine, "seconds"))
        rows.append((title_of(method), str(len(mine)), *cells, time, *map(_thousands, costs)))
    thousands = [f"{name}, thousands" for name in ("samples trained", "critical path", "cases evaluated")]
    return Table(
        title="Results and cost",
        columns=("method", "seeds", f"test {study.metric}{unit.sign}", f"train{unit.sign}", "time", *thousands),
        rows=tuple(rows),
        note="Mean ± standard deviation over seeds; costs are means. Time depends on the machine's load.",
        rest="Critical path: samples that one device trains on if each candidate has its own.",
        narrow=5,
    )


def comparisons_table(found: Sequence[Decision]) -> Table:
    """The declared comparisons, each with its answer."""
    points = ", points" if found and found[0].unit.percent else ""
    return Table(
        title="Comparisons",
        columns=("comparison", "answer", f"difference{points}", "95% interval", "adjusted p", "seeds", "p", "finds"),
        rows=tuple((each.title, each.answer, *each.cells) for each in found),
        note=RULE,
        rest="Finds: the true difference that this many seeds with this scatter find four times out of five.",
        words=2,
        narrow=5,
    )


RULE = (
    "Runs with the same seed are compared by the paired t-test, and p is adjusted by Holm's method for all comparisons "
    "in the table. Better or worse: adjusted p below 0.05. Equivalent: the interval lies within ±0.3 points. Open: "
    "the seeds are too few to say. Under way: planned seeds are missing. Intervals show the scatter over seeds, "
    "not over samples."
)


def selection_table(study: Study) -> Table | None:
    """How selection went with each method that compares candidates; None if no method does."""
    rows = []
    for method, by_seed in study.histories.items():
        record = pd.concat(by_seed.values())
        record = record[record.cases_used > 0]
        if len(record):
            shares = [f"{(record.reason == reason).mean():.0%}" for reason in ENDINGS]
            known = record.disagreement.dropna() if "disagreement" in record else record.cases_used[:0]
            apart = f"{known.mean():.1%}" if len(known) else NONE
            rows.append((title_of(method), count(median(record.cases_used)), *shares, apart))
    if not rows:
        return None
    return Table(
        title="How selection went",
        columns=("method", "cases used", *ENDINGS.values(), "disagreement"),
        rows=tuple(rows),
        note="Cases used: the median over generations. Tied: the remaining candidates solve the same cases. "
        "Disagreement: how often two candidates differ on a case, one right and one wrong.",
    )


ENDINGS = {"sole_survivor": "one left", "all_failed": "all failed", "exhausted": "tied"}
"""How a selection ends, in words."""


def _column(runs: pd.DataFrame, name: str) -> dict[int, float]:
    return runs.set_index("seed")[name].dropna().to_dict() if name in runs else {}


def _mean(runs: pd.DataFrame, name: str) -> float:
    return float(pd.to_numeric(runs[name]).mean())


def _thousands(number: float) -> str:
    return NONE if pd.isna(number) else f"{number / 1000:,.0f}"


def _spread(found: Iterable[float], percent: bool) -> str:
    numbers, form = list(found), ".2f" if percent else ".4g"
    if not numbers:
        return NONE
    return f"{fmean(numbers):{form}}" + (f" ± {stdev(numbers):{form}}" if len(numbers) > 1 else "")
