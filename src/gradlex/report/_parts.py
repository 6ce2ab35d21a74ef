"""The parts of an experiment's report: its tables, and the sentences that say what they mean."""

from __future__ import annotations

from typing import TypeAlias

from gradlex.report._comparison import comparison_tables
from gradlex.report._evidence import COMPARE, Evidence
from gradlex.report._paper_tables import TITLES, paper_table
from gradlex.report._setup import setup_notes
from gradlex.report._table import WIDTH, Table, latex_text, paragraph
from gradlex.report._verdict import verdict

Part: TypeAlias = Table | str
"""A table, or a paragraph."""

_COMPARED = ("table2", COMPARE)


def report_parts(evidence: Evidence) -> list[Part]:
    """The paper's table where there is one; for table2 and compare also the comparison and what it supports."""
    parts: list[Part] = [paper_table(evidence)] if evidence.plan.name in TITLES else []
    # Where the paper's table is not there to say it.
    notes = () if parts else (*setup_notes(evidence), *evidence.missing_notes)
    if evidence.plan.name not in _COMPARED:
        return parts
    for setting in evidence.settings:
        parts += [*comparison_tables(evidence, setting, notes), verdict(evidence, setting)]
    if not evidence.settings:
        parts += ["No run is finished yet.", *notes]
    return parts


def as_text(parts: list[Part], width: int = WIDTH) -> str:
    """For a terminal."""
    return "\n".join(
        part.text(width) if isinstance(part, Table) else f"{paragraph(part, width)}\n" for part in parts
    )


def as_markdown(parts: list[Part]) -> str:
    """For a page."""
    return "\n".join(part.markdown() if isinstance(part, Table) else f"{part}\n" for part in parts)


def as_latex(parts: list[Part]) -> str:
    """For a paper."""
    return "\n".join(part.latex() if isinstance(part, Table) else f"{latex_text(part)}\n" for part in parts)
