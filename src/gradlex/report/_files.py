"""The report of one experiment as files beside its plan, and as text."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gradlex.experiments import Plan
from gradlex.report._drawing import save_figure
from gradlex.report._evidence import FIGURE2, gather
from gradlex.report._figure2 import write_figure2
from gradlex.report._parts import as_latex, as_markdown, as_text, report_parts
from gradlex.report._plots import accuracies, curves
from gradlex.report._table import WIDTH


def text_report(plan: Plan, width: int = WIDTH) -> str:
    """The tables of a plan with what its runs hold so far, and what they mean, for a terminal of this width.

    Of figure2 what was last written.
    """
    if plan.name == FIGURE2:
        return figure2_numbers(plan, "txt")
    return as_text(report_parts(gather(plan)), min(width, WIDTH))


def figure2_numbers(plan: Plan, kind: str) -> str:
    """The numbers of figure 2 as `write_report` wrote them: its thousands of resamples are not drawn again."""
    path = plan.root / f"{FIGURE2}.{kind}"
    return path.read_text(encoding="utf-8") if path.exists() else "Figure 2 is not drawn yet.\n"


def write_report(plan: Plan) -> list[Path]:
    """Write the tables and plots of a plan beside ROOT/<name>.json; the files that were written."""
    evidence = gather(plan)
    if plan.name == FIGURE2:
        return write_figure2(plan) if evidence.arms else []
    parts = report_parts(evidence)
    contents = {"txt": as_text(parts), "md": as_markdown(parts), "tex": as_latex(parts)}
    written = []
    for kind, content in contents.items():
        path = plan.root / f"{plan.name}.{kind}"
        path.write_text(content, encoding="utf-8", newline="\n")
        written.append(path)
    if evidence.arms:
        for name, draw in (("curves", curves), ("accuracies", accuracies)):
            written += save_figure(partial(draw, evidence), plan.root / f"{plan.name}-{name}")
    return written
