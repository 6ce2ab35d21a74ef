"""Tables: of results and cost, of comparisons, of how selection went; as text within 80 columns and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import rich.box
from rich.console import Console
from rich.table import Table as RichTable

from gradlex.report.decisions import Decision, values
from gradlex.report.frames import Study
from gradlex.report.statistics import detectable
from gradlex.report.words import NONE, Unit, count, duration, p_text, title_of, unit_of

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
        console = Console(width=width, color_system=None, force_jupyter=False, markup=False, emoji=False)
        with console.capture() as printed:
            console.print(table, self.note, sep="")
        return "\n".join(line.rstrip() for line in printed.get().splitlines()).strip("\n") + "\n"

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
        cells = [_spread(values(mine, method, f"{part}_{study.metric}"), unit) for part in ("test", "train")]
        time, *costs = mine[["seconds", "samples_trained", "critical_path", "cases_evaluated"]].astype(float).mean()
        thousands = [count(cost / 1000) for cost in costs]
        rows.append((title_of(method), str(len(mine)), *cells, duration(time), *thousands))
    named = [f"{name}, thousands" for name in ("samples trained", "critical path", "cases evaluated")]
    return Table(
        title="Results and cost",
        columns=("method", "seeds", f"test {study.metric}{unit.sign}", f"train{unit.sign}", "time", *named),
        rows=tuple(rows),
        note="Mean ± standard deviation over seeds; costs are means. Time depends on the machine's load.",
        rest="Critical path: samples that one device trains on if each candidate has its own.",
        narrow=5,
    )


def comparisons_table(found: Sequence[Decision]) -> Table:
    """The declared comparisons, each with its answer."""
    rows = []
    for each in found:
        gap, unit = each.difference, each.unit
        finds = unit.bare(detectable(gap, each.tests))
        numbers = (unit.bare(gap.mean, "+"), each.interval, p_text(each.adjusted), str(gap.n), p_text(gap.p), finds)
        rows.append((each.title, each.answer, *numbers))
    points = ", points" if found[0].unit.percent else ""
    return Table(
        title="Comparisons",
        columns=("comparison", "answer", f"difference{points}", "95% interval", "adjusted p", "seeds", "p", "finds"),
        rows=tuple(rows),
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
    for method, found in study.history[study.history.cases_used > 0].groupby("method", sort=False):
        shares = [f"{(found.reason == reason).mean():.0%}" for reason in ENDINGS]
        apart = found.disagreement.mean()
        known = NONE if pd.isna(apart) else f"{apart:.1%}"
        rows.append((title_of(method), count(found.cases_used.median()), *shares, known))
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


def _spread(found: pd.Series[float], unit: Unit) -> str:
    texts = [f"{unit.scale * number:{'.2f' if unit.percent else '.4g'}}" for number in (found.mean(), found.std())]
    return NONE if found.empty else " ± ".join(texts[: len(found)])
