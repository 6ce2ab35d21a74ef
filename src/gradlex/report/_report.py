"""The report of one experiment: tables, and sentences that say what they mean, as text and as files beside its plan."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TypeAlias

from gradlex.experiments import Plan
from gradlex.report._comparison import comparison_tables
from gradlex.report._evidence import COMPARE, FIGURE2, Evidence, gather
from gradlex.report._figure2 import write_figure2
from gradlex.report._pairs import decision_table, pairs_verdict
from gradlex.report._paper_tables import TITLES, paper_table
from gradlex.report._plots import curves, finals, save_figure
from gradlex.report._provenance import setup_notes
from gradlex.report._table import WIDTH, Table, latex_text, markdown_text, paragraph
from gradlex.report._verdict import verdict

Part: TypeAlias = Table | str
"""A table, or a paragraph."""

_PLOTS = {"curves": curves, "finals": finals}
"""By the ending of the file's name."""


def text_report(plan: Plan, width: int = WIDTH) -> str:
    """The tables of a plan and what they mean, for a terminal of this width; of figure2 what was last written."""
    if plan.name == FIGURE2:
        return figure2_numbers(plan, "txt")
    return _as_text(report_parts(gather(plan)), min(width, WIDTH))


def write_report(plan: Plan) -> list[Path]:
    """Write the tables and plots of a plan beside ROOT/<name>.json; returns the files."""
    evidence = gather(plan)
    if plan.name == FIGURE2:
        return write_figure2(plan) if evidence.arms else []
    parts = report_parts(evidence)
    contents = {"txt": _as_text(parts), "md": _as_markdown(parts), "tex": _as_latex(parts)}
    written = []
    for kind, content in contents.items():
        path = plan.root / f"{plan.name}.{kind}"
        path.write_text(content, encoding="utf-8", newline="\n")
        written.append(path)
    if evidence.arms:
        for name, draw in _PLOTS.items():
            written += save_figure(partial(draw, evidence), plan.root / f"{plan.name}-{name}")
    return written


def markdown_tables(evidence: Evidence) -> str:
    """The tables for a page, which says at its top what they mean."""
    parts = report_parts(evidence)
    tables: list[Part] = [part for part in parts if isinstance(part, Table)]
    return _as_markdown(tables or parts)


def figure2_numbers(plan: Plan, kind: str) -> str:
    """The numbers of figure 2 as `write_report` wrote them."""
    path = plan.root / f"{FIGURE2}.{kind}"
    if not path.exists():
        return "Figure 2 is not drawn yet.\n"
    return path.read_text(encoding="utf-8", errors="backslashreplace")


def report_parts(evidence: Evidence) -> list[Part]:
    """The paper's table where there is one; for table2 and compare also the comparison and its verdict."""
    parts: list[Part] = [paper_table(evidence)] if evidence.plan.name in TITLES else []
    # The paper's table has these notes already.
    notes = () if parts else (*setup_notes(evidence), *evidence.missing_notes)
    if evidence.plan.name not in ("table2", COMPARE):
        return parts
    for setting in evidence.settings:
        parts += comparison_tables(evidence, setting, notes)
        if evidence.plan.pairs:
            parts += [decision_table(evidence, setting), pairs_verdict(evidence, setting)]
        else:
            parts.append(verdict(evidence, setting))
    if not evidence.settings:
        parts += ["No run is finished yet.", *notes]
    return parts


def _as_text(parts: list[Part], width: int = WIDTH) -> str:
    return "\n".join(
        part.text(width) if isinstance(part, Table) else f"{paragraph(part, width)}\n" for part in parts
    )


def _as_markdown(parts: list[Part]) -> str:
    return "\n".join(
        part.markdown() if isinstance(part, Table) else f"{markdown_text(part)}\n" for part in parts
    )


def _as_latex(parts: list[Part]) -> str:
    return "\n".join(part.latex() if isinstance(part, Table) else f"{latex_text(part)}\n" for part in parts)
