"""The paper's four tables: our rows in its layout, and its own rows below."""

from __future__ import annotations

from collections.abc import Iterator

from gradlex.experiments import METHODS, Published, published
from gradlex.report._columns import Setting
from gradlex.report._evidence import Arm, Evidence, arm_order
from gradlex.report._format import NONE, spread
from gradlex.report._setup import PAPER, setup_notes
from gradlex.report._table import Table

TITLES = {
    "table1": "SGD and lexicase over datasets and models, beside table 1 of the paper",
    "table2": "Methods of selection, beside table 2 of the paper",
    "table3": "The size of the population, beside table 3 of the paper",
    "table4": "Momentum between generations, beside table 4 of the paper",
}
_PAPER_SEEDS = 3
_UNIT = "Final test accuracy in per cent, mean ± standard deviation over seeds; never the best generation."


def paper_table(evidence: Evidence) -> Table:
    """The table of a plan named table1 to table4."""
    name = evidence.plan.name
    cells = published(name)
    theirs = _published_rows(name, cells)
    columns = list(dict.fromkeys([*(title for row in theirs.values() for title in row), *_titles(evidence)]))
    ours = [_our_row(evidence, setting, columns) for setting in evidence.settings]
    rows = [
        ("published", setting.dataset, setting.model, str(_PAPER_SEEDS), *(row.get(c, NONE) for c in columns))
        for setting, row in theirs.items()
    ]
    return Table(
        title=TITLES[name],
        columns=("who", "dataset", "model", "seeds", *columns),
        rows=(*ours, *rows),
        notes=(_UNIT, *setup_notes(evidence), *evidence.missing_notes, PAPER),
        words=3,
    )


def _titles(evidence: Evidence) -> Iterator[str]:
    """Our columns; what the paper has stands before what only we have."""
    arms = [arm for setting in evidence.settings for arm in evidence.on(setting).values()]
    yield from (arm.title for arm in sorted(arms, key=arm_order))


def _our_row(evidence: Evidence, setting: Setting, columns: list[str]) -> tuple[str, ...]:
    arms = evidence.on(setting)
    seeds = max(len(arm.runs) for arm in arms.values())
    who = f"gradlex, {evidence.plan.scale}"
    cells = (_cell(arms.get(title), seeds) for title in columns)
    return who, setting.dataset, setting.model, str(seeds), *cells


def _cell(arm: Arm | None, seeds: int) -> str:
    if arm is None:
        return NONE
    fewer = "" if len(arm.runs) == seeds else f" ({len(arm.runs)} of {seeds} seeds)"
    return spread(arm.summary) + fewer


def _published_rows(name: str, cells: tuple[Published, ...]) -> dict[Setting, dict[str, str]]:
    rows: dict[Setting, dict[str, str]] = {}
    for cell in cells:
        deviation = "" if cell.std is None else f" ± {cell.std:.2f}"
        row = rows.setdefault(Setting(dataset=cell.dataset, model=cell.model), {})
        row[_published_column(name, cell)] = f"{cell.accuracy:.2f}{deviation}"
    return rows


def _published_column(name: str, cell: Published) -> str:
    varied = {"table3": f"p = {cell.population}", "table4": cell.momentum}
    return METHODS[cell.method].title if cell.method == "sgd" else varied.get(name, cell.method)
