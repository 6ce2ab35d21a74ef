"""RESULTS.md: all experiments of a folder on one page, made from their records alone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from gradlex.experiments import EXPERIMENTS, stored_plans
from gradlex.report._claims import Claim, claims
from gradlex.report._evidence import COMPARE, FIGURE2, Evidence, gather
from gradlex.report._format import label
from gradlex.report._provenance import provenance
from gradlex.report._report import figure2_numbers, markdown_report
from gradlex.report._table import markdown_code, markdown_text

# In the order of the page.
_HEADINGS = {
    "table1": "Table 1",
    "table2": "Table 2",
    "table3": "Table 3",
    "table4": "Table 4",
    FIGURE2: "Figure 2",
    COMPARE: "Comparison",
}

_RULE = (
    "One rule decides: the runs agree with a claim where the 95 % interval of the difference between runs with the "
    "same seed lies wholly on the claim's side of zero, disagree where it lies wholly on the other side, and are "
    "inconclusive where it holds zero or cannot be computed. The side is that of the published numbers where the paper "
    "has the same dataset and model, else what the paper says in general. Only methods with the same weight decay are "
    "compared. Entropy and effective rank are our measures of what the paper calls flatter and more diverse. The paper "
    "did not run SGD on equal samples; it concludes from random selection that lexicase is better. The tests are not "
    "adjusted for their number.\n"
)


def results_page(root: Path, page: Path) -> str:
    """The page of all experiments under a folder; links are relative to where the page will be."""
    headings = list(_HEADINGS)
    found = [gather(plan) for plan in stored_plans(root)]
    evidences = sorted(found, key=lambda evidence: headings.index(evidence.plan.name))
    name = Path(os.path.relpath(root, page.parent)).as_posix()
    again = shlex.join(["gradlex", "report", name, "--page", page.name])
    sections = [
        "# Results\n",
        "Experiments of Ding and Spector, “Optimizing Neural Networks with Gradient Lexicase Selection” (ICLR "
        "2022), run with gradlex, beside the published numbers. Where the notes name less data, smaller networks or "
        "fewer generations than the paper's, compare directions, not sizes. Every number is made from the records in "
        f"{markdown_code(f'{name}/')}.\n",
        "## How it was made\n",
        provenance(evidences),
        *(section for evidence in evidences for section in _experiment(evidence, quote(os.fsencode(name)))),
        *_claims(evidences),
        *_missing(evidences),
        "---\n",
        f"Made by {markdown_code(again)}.\n",
    ]
    return "\n".join(sections)


def _experiment(evidence: Evidence, root: str) -> list[str]:
    plan = evidence.plan
    if plan.name == FIGURE2:
        body = figure2_numbers(plan, "md")
        drawn = evidence.arms and (plan.root / f"{FIGURE2}.svg").exists()
        plots = {FIGURE2: "Activations by method"} if drawn else {}
    else:
        body = markdown_report(evidence)
        plots = _plots(evidence)
    images = [f"![{markdown_text(text)}]({root}/{plot}.svg)\n" for plot, text in plots.items()]
    return [f"## {_HEADINGS[plan.name]}\n", body, *images]


def _plots(evidence: Evidence) -> dict[str, str]:
    """The plots that `write_report` draws, none without a finished run, and what they show."""
    if not evidence.arms:
        return {}
    what = label("test", evidence.arms[0].measure).removesuffix(", %")
    name = evidence.plan.name
    return {
        f"{name}-curves": f"{what.capitalize()} against samples trained",
        f"{name}-finals": f"Final {what}, seed by seed",
    }


def _claims(evidences: Sequence[Evidence]) -> list[str]:
    found = claims(evidences)
    lists = {
        "What agrees with the paper": [claim for claim in found if claim.agreement > 0],
        "What disagrees with the paper": [claim for claim in found if claim.agreement < 0],
        "What is inconclusive": [claim for claim in found if claim.agreement == 0],
    }
    return ["## The paper's claims\n", _RULE, *(_list(title, lines) for title, lines in lists.items())]


def _list(title: str, found: Sequence[Claim]) -> str:
    lines = [f"- {markdown_text(claim.line)}" for claim in found] or ["- Nothing so far."]
    return "\n".join([f"### {title}", "", *lines]) + "\n"


def _missing(evidences: Sequence[Evidence]) -> list[str]:
    lines = [
        f"- {evidence.plan.name}: {markdown_text(line)}"
        for evidence in evidences
        for line in evidence.missing
    ]
    begun = {evidence.plan.name for evidence in evidences}
    if begun != {COMPARE}:  # a comparison on one's own data has nothing to do with the paper's experiments
        lines += [f"- {name}: not started." for name in EXPERIMENTS if name not in begun]
    return ["## What is missing\n", "\n".join(lines or ["- Nothing: every planned run is finished."]) + "\n"]
