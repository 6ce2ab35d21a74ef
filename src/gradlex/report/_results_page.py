"""RESULTS.md: all experiments of a folder on one page, the answers first, made from their records alone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from gradlex.experiments import EXPERIMENTS, stored_plans
from gradlex.recipe import REVISION
from gradlex.report._claims import Claim, claims
from gradlex.report._evidence import COMPARE, FIGURE2, Evidence, gather
from gradlex.report._format import NONE, label, p_cell
from gradlex.report._pairs import decisions
from gradlex.report._provenance import provenance, revision_notes
from gradlex.report._report import figure2_numbers, markdown_report
from gradlex.report._statistics import detectable
from gradlex.report._table import Table, markdown_code, markdown_text
from gradlex.report._verdict import verdict

# In the order of the page.
_HEADINGS = {
    "table1": "Table 1",
    "table2": "Table 2",
    "table3": "Table 3",
    "table4": "Table 4",
    FIGURE2: "Figure 2",
    COMPARE: "Comparison",
}

_BULLETS = 5  # that a reader can take in at once

_RULE = (
    "One rule decides. Runs with the same seed are compared by the paired t-test, and p is adjusted by Holm's "
    "method for the number of claims in the table. The runs agree with a claim where adjusted p is below 0.05 and"
    " the difference lies on the claim's side of zero, disagree where it lies on the other side, and cannot tell "
    "otherwise. The side is that of the published numbers where the paper has the same dataset and model, else "
    "what the paper says in general. Only methods with the same weight decay are compared. Entropy and effective "
    "rank are our measures of what the paper calls flatter and more diverse. The paper did not run SGD on equal "
    "samples; it concludes from random selection that lexicase is better. Detectable is the true difference that "
    "so many seeds with this scatter find four times out of five.\n"
)


def results_page(root: Path, page: Path) -> str:
    """The page of all experiments in a folder and its subfolders; links are relative to where the page will be."""
    headings = list(_HEADINGS)
    found = [gather(plan) for plan in stored_plans(root)]
    evidences = sorted(found, key=lambda each: (not each.plan.pairs, headings.index(each.plan.name)))
    under_way = [evidence for evidence in evidences if _is_under_way(evidence)]
    told = [evidence for evidence in evidences if evidence not in under_way] or under_way
    current = [evidence for evidence in told if not _is_earlier(evidence)] or told
    earlier = [evidence for evidence in told if evidence not in current]
    under_way = [evidence for evidence in under_way if evidence not in current]
    name = Path(os.path.relpath(root, page.parent)).as_posix()
    again = shlex.join(["gradlex", "report", name, "--page", page.name])
    sections = [
        "# Results\n",
        *_answers(current, page),
        f"Every number is made from the records in {markdown_code(f'{name}/')} by {markdown_code(again)}. Where "
        "the notes name less data, smaller networks or fewer generations than the paper's, compare directions, not "
        "sizes.\n",
        *_claims(current, "The paper's claims"),
        *(section for evidence in current for section in _experiment(evidence, page, level=2)),
        *_soups(root),
        *_under_way(under_way, page),
        *_missing(evidences),
        "## How it was made\n",
        provenance([*current, *under_way]),
        *_earlier(earlier, page),
    ]
    return "\n".join(sections)


def _soups(root: Path) -> list[str]:
    """The tables that benchmarks/soup.py has written."""
    found = [path.read_text(encoding="utf-8") for path in sorted(root.rglob("soup.md"))]
    return ["## Soups\n", *found] if found else []


def _is_earlier(evidence: Evidence) -> bool:
    """Whether all its runs were made by an earlier revision, so that they cannot be repeated by this one."""
    revisions = {run.revision for arm in evidence.arms for run in arm.runs.values()}
    return bool(revisions) and max(revisions) < REVISION


def _is_under_way(evidence: Evidence) -> bool:
    """Whether declared comparisons have one seed at most, which decides nothing."""
    return bool(evidence.plan.pairs) and all(len(arm.runs) < 2 for arm in evidence.arms)


def _answers(evidences: Sequence[Evidence], page: Path) -> list[str]:
    """What the experiments say, in a few bullets, and a plot of the first."""
    declared = [
        (decision, evidence.plan.title or str(setting))
        for evidence in evidences
        for setting in evidence.settings
        for decision in decisions(evidence, setting)
    ]
    declared.sort(key=lambda each: not each[0].primary)
    lines = [
        f"**{markdown_text(decision.claim)}**: {markdown_text(decision.evidence)} ({markdown_text(where)})."
        for decision, where in declared[:_BULLETS]
    ] or [
        markdown_text(verdict(evidence, setting).removeprefix("In short, for "))
        for evidence in evidences
        if evidence.plan.name in (COMPARE, "table2")
        for setting in evidence.settings
    ][:_BULLETS]
    plots = [
        _image(evidence, "finals", page)
        for evidence in evidences
        if evidence.plan.name != FIGURE2 and evidence.arms
    ]
    bullets = ["\n".join(f"- {line}" for line in lines) + "\n"] if lines else []
    return [*bullets, *plots[:1]]


def _experiment(evidence: Evidence, page: Path, *, level: int) -> list[str]:
    """A heading, the final results as a plot, and everything else folded away."""
    plan, marks = evidence.plan, "#" * level
    title = plan.title or _HEADINGS[plan.name]
    heading = f"{marks} {markdown_text(title)}\n"
    if plan.name == FIGURE2:
        drawn = evidence.arms and (plan.root / f"{FIGURE2}.svg").exists()
        images = [_image(evidence, "", page)] if drawn else []
        return [heading, *images, *_folded("Numbers", [figure2_numbers(plan, "md")])]
    images = [_image(evidence, kind, page) for kind in ("finals", "curves")] if evidence.arms else []
    return [
        heading,
        *images[:1],
        *_folded("Tables, costs and curves", [markdown_report(evidence), *images[1:]]),
    ]


def _image(evidence: Evidence, kind: str, page: Path) -> str:
    plan = evidence.plan
    texts = {"": "Activations by method"}
    if evidence.arms:
        what = label("test", evidence.arms[0].measure).removesuffix(", %")
        texts |= {"curves": f"{what.capitalize()} against samples trained", "finals": f"Final {what} by seed"}
    folder = Path(os.path.relpath(plan.root, page.parent)).as_posix()
    file = f"{quote(os.fsencode(folder))}/{plan.name}{f'-{kind}' if kind else ''}.svg"
    return f"![{markdown_text(texts[kind])}]({file})\n"


def _folded(summary: str, parts: Iterable[str]) -> list[str]:
    return [f"<details>\n<summary>{markdown_text(summary)}</summary>\n", *parts, "</details>\n"]


def _claims(evidences: Sequence[Evidence], heading: str) -> list[str]:
    """One line for each claim of the paper that has runs on both sides."""
    found = claims(evidences)
    if not found:
        return []
    words = {1: "agrees", -1: "disagrees", 0: "cannot tell"}
    table = Table(
        title="",
        columns=("claim", "our runs", "difference", "95 % interval", "p, adjusted", "seeds", "detectable"),
        rows=tuple(_claim_row(claim, words[claim.agreement]) for claim in found),
        words=2,
    )
    return [f"## {heading}\n", table.markdown(), *_folded("How claims are judged", [_RULE])]


def _claim_row(claim: Claim, word: str) -> tuple[str, ...]:
    difference, unit = claim.difference, claim.unit
    found = detectable(difference)
    interval = (
        NONE
        if difference.low is None or difference.high is None
        else f"{unit.signed(difference.low)} to {unit.signed(difference.high)}"
    )
    return (
        f"{claim.text} ({', '.join(claim.tables)})",
        word,
        f"{unit.signed(difference.mean)} {unit.word}".rstrip(),
        interval,
        p_cell(claim.p),
        str(difference.n),
        NONE if found is None else f"{found:{unit.form}}",
    )


def _earlier(evidences: Sequence[Evidence], page: Path) -> list[str]:
    """Results of an earlier revision, folded away."""
    if not evidences:
        return []
    notes = revision_notes([arm for evidence in evidences for arm in evidence.arms])
    return [
        "## Earlier results\n",
        *(f"{markdown_text(note)}\n" for note in notes),
        *_folded(
            "Earlier experiments",
            [
                provenance(evidences),
                *_claims(evidences, "Claims by the earlier results"),
                *(part for evidence in evidences for part in _experiment(evidence, page, level=3)),
            ],
        ),
    ]


def _under_way(evidences: Sequence[Evidence], page: Path) -> list[str]:
    """Experiments that cannot decide anything yet, below those that can."""
    parts = [part for evidence in evidences for part in _experiment(evidence, page, level=3)]
    return ["## Under way\n", "One seed decides nothing; these have no more yet.\n", *parts] if parts else []


def _missing(evidences: Sequence[Evidence]) -> list[str]:
    lines = [
        f"- {markdown_text(evidence.plan.title or evidence.plan.name)}: {markdown_text(line)}"
        for evidence in evidences
        for line in evidence.missing
    ]
    begun = {evidence.plan.name for evidence in evidences}
    if begun != {COMPARE}:  # a comparison on one's own data has nothing to do with the paper's experiments
        lines += [f"- {name}: not started." for name in EXPERIMENTS if name not in begun]
    return ["## What is missing\n", "\n".join(lines or ["- Nothing: every planned run is finished."]) + "\n"]
