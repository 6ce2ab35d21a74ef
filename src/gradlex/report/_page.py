"""RESULTS.md: all experiments of a root on one page, made from their records alone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from gradlex.experiments import EXPERIMENTS, stored_plans
from gradlex.report._claim import Claim
from gradlex.report._claims import claims
from gradlex.report._evidence import COMPARE, FIGURE2, Evidence, gather
from gradlex.report._files import figure2_numbers
from gradlex.report._parts import as_markdown, report_parts
from gradlex.report._provenance import provenance
from gradlex.report._table import markdown_text

# In the order of the page.
_HEADINGS = {
    "table1": "Table 1",
    "table2": "Table 2",
    "table3": "Table 3",
    "table4": "Table 4",
    FIGURE2: "Figure 2",
    COMPARE: "Comparison",
}
_PLOTS = {
    "curves": "Test accuracy against samples trained",
    "accuracies": "Final test accuracy, seed by seed",
}


def results_page(root: Path, page: Path) -> str:
    """The page of all experiments under a root; where the page will lie decides its links."""
    headings = list(_HEADINGS)
    found = [gather(plan) for plan in stored_plans(root)]
    evidences = sorted(found, key=lambda evidence: headings.index(evidence.plan.name))
    name = Path(os.path.relpath(root, page.parent)).as_posix()
    again = shlex.join(["gradlex", "report", name, "--page", page.name])
    sections = [
        "# Results\n",
        "Experiments of Ding and Spector, “Optimizing Neural Networks with Gradient Lexicase Selection” (ICLR "
        "2022), run with gradlex beside the published numbers. Rows marked gradlex are on less data, smaller "
        "networks or fewer generations wherever their notes say so: compare directions with the paper there, not "
        f"sizes. Every number here is made from the records in `{name}/`.\n",
        "## How it was made\n",
        provenance(evidences),
        *(section for evidence in evidences for section in _experiment(evidence, quote(name))),
        *_checked(evidences),
        *_missing(evidences),
        "---\n",
        f"Made by `{again}`, which makes it again from the records.\n",
    ]
    return "\n".join(sections)


def _experiment(evidence: Evidence, root: str) -> list[str]:
    plan = evidence.plan
    if plan.name == FIGURE2:
        body = figure2_numbers(plan, "md")
        drawn = (plan.root / f"{FIGURE2}.svg").exists()
        plots = {FIGURE2: "Activations, method beside method"} if drawn else {}
    else:
        body = as_markdown(report_parts(evidence))
        plots = {f"{plan.name}-{plot}": text for plot, text in _PLOTS.items()}
    # Without a finished run nothing is drawn.
    images = [f"![{text}]({root}/{plot}.svg)\n" for plot, text in plots.items() if evidence.arms]
    return [f"## {_HEADINGS[plan.name]}\n", body, *images]


def _checked(evidences: Sequence[Evidence]) -> list[str]:
    found = claims(evidences)
    lists = {
        "What agrees with the paper": [claim for claim in found if claim.agreement > 0],
        "What does not": [claim for claim in found if claim.agreement < 0],
        "What is too noisy to say": [claim for claim in found if claim.agreement == 0],
    }
    rule = (
        "By one rule: a claim of the paper agrees where the 95 % interval of the difference between runs of the same "
        "seed is wholly on the side of zero that the paper has it on, does not where it is wholly on the other, and is "
        "too noisy to say where it has zero inside or there is none. The side is that of the published numbers where "
        "the paper has the same dataset and model, else what the paper says in general. Entropy and effective rank are "
        "our measures of what it calls flatter and more diverse; it did not run SGD on as many samples, but concludes "
        "from random selection that lexicase is above it. Each line is a test of its own; nothing is adjusted for "
        "their number.\n"
    )
    return ["## The paper's claims\n", rule, *(_list(title, lines) for title, lines in lists.items())]


def _list(title: str, found: Sequence[Claim]) -> str:
    lines = [f"- {claim.line}" for claim in found] or ["- Nothing so far."]
    return "\n".join([f"### {title}", "", *lines]) + "\n"


def _missing(evidences: Sequence[Evidence]) -> list[str]:
    lines = [
        f"- {evidence.plan.name}: {markdown_text(line)}"
        for evidence in evidences
        for line in evidence.missing
    ]
    begun = {evidence.plan.name for evidence in evidences}
    if begun != {COMPARE}:  # one's own data has nothing to do with the paper's experiments
        lines += [f"- {name}: not begun." for name in EXPERIMENTS if name not in begun]
    return ["## What is missing\n", "\n".join(lines or ["- Nothing: every planned run is finished."]) + "\n"]
