"""RESULTS.md: all experiments of a folder on one page, the answers first, made from their records alone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from urllib.parse import quote

from gradlex.experiments import EXPERIMENTS, published, stored_plans
from gradlex.recipe import REVISION
from gradlex.report._claims import Claim, claims
from gradlex.report._evidence import COMPARE, FIGURE2, Evidence, cost_names, gather
from gradlex.report._format import NONE, interval_cell, label, p_cell
from gradlex.report._pairs import EQUIVALENT, Decision, decisions
from gradlex.report._plots import answers, save_figure
from gradlex.report._provenance import provenance, revision_notes
from gradlex.report._report import figure2_numbers, markdown_tables
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
_ANSWERS = "answers"  # the plot of the declared comparisons
_WORDS = {"equivalent": f"equivalent within ±{EQUIVALENT:g} points", "open": "not significantly different"}

_RULE = (
    "One rule decides. Runs with the same seed are compared by the paired t-test, and p is adjusted by Holm's method "
    "for the number of claims about test results, or about representations. The runs agree with a claim where "
    "adjusted p is below 0.05 and the difference lies on the claim's side of zero, disagree where it lies on the "
    "other side, and cannot tell otherwise; a claim is under way while planned seeds are missing. The side is that of "
    "the published numbers where the paper has the same dataset and model, else what the paper says in general. Only "
    "methods with the same weight decay are compared. Entropy and effective rank are our measures of what the paper "
    "calls flatter and more diverse. The paper did not run SGD on equal samples; it concludes from random selection "
    "that lexicase is better. Detectable is the true difference that so many seeds with this scatter find four times "
    "out of five, at 0.05 divided by the number of claims.\n"
)


@dataclass(frozen=True, kw_only=True)
class _Found:
    """The experiments of a folder, each in one of three places of the page."""

    current: Sequence[Evidence]
    under_way: Sequence[Evidence]
    earlier: Sequence[Evidence]

    @property
    def decided(self) -> list[tuple[str, list[Decision]]]:
        """The declared comparisons of the current experiments, with what they were made on."""
        return [
            (evidence.where(setting), decisions(evidence, setting))
            for evidence in self.current
            if evidence.plan.pairs
            for setting in evidence.settings
        ]


def write_results_page(root: Path, page: Path) -> list[Path]:
    """Write the page, and the plot of its answers into the folder of the experiments."""
    found = _gathered(root)
    drawn = save_figure(partial(answers, found.decided), root / _ANSWERS) if found.decided else []
    page.write_text(_page(found, root, page), encoding="utf-8", newline="\n")
    return [page, *drawn]


def results_page(root: Path, page: Path) -> str:
    """The page of all experiments in a folder and its subfolders; links are relative to where the page will be."""
    return _page(_gathered(root), root, page)


def _page(found: _Found, root: Path, page: Path) -> str:
    name = Path(os.path.relpath(root, page.parent)).as_posix()
    again = shlex.join(["gradlex", "report", name, "--page", page.name])
    link = quote(os.fsencode(name))
    planned = (
        f" The experiments were [planned before the runs]({link}/plan.md)."
        if (root / "plan.md").exists()
        else ""
    )
    sections = [
        "# Results\n",
        *_answers(found, link, page),
        "Intervals cover other seeds on the same training and test samples, not other samples. Where the notes name "
        "less data, smaller networks or fewer generations than the paper's, compare directions, not sizes.\n",
        f"Every number and plot is made from the records in {markdown_code(f'{name}/')} by {markdown_code(again)}."
        f"{planned}\n",
        *_claims(found.current, "## The paper's claims"),
        *(section for evidence in found.current for section in _experiment(evidence, page, level=2)),
        *_soups(root),
        *_under_way(found.under_way, page),
        *_missing([*found.current, *found.under_way]),
        "## How it was made\n",
        provenance([*found.current, *found.under_way]),
        *_earlier(found.earlier, page),
    ]
    return "\n".join(sections)


def _gathered(root: Path) -> _Found:
    """Declared comparisons first, the paper's questions before others; what decides nothing apart."""
    headings = list(_HEADINGS)
    evidences = sorted(
        (gather(plan) for plan in stored_plans(root)),
        key=lambda each: (not each.plan.pairs, not _is_the_papers(each), headings.index(each.plan.name)),
    )
    under_way = [evidence for evidence in evidences if _is_under_way(evidence)]
    told = [evidence for evidence in evidences if evidence not in under_way] or under_way
    current = [evidence for evidence in told if not _is_earlier(evidence)] or told
    return _Found(
        current=current,
        under_way=[evidence for evidence in under_way if evidence not in current],
        earlier=[evidence for evidence in told if evidence not in current],
    )


def _is_the_papers(evidence: Evidence) -> bool:
    """Whether its primary comparison is between methods of the paper."""
    methods = {cell.method for cell in published("table2")}
    return bool(evidence.plan.pairs) and methods.issuperset(evidence.plan.pairs[0])


def _soups(root: Path) -> list[str]:
    """The tables that benchmarks/soup.py has written."""
    found = [path.read_text(encoding="utf-8") for path in sorted(root.rglob("soup.md"))]
    return ["## Soups\n", *_folded("Mixtures of fine-tuned checkpoints", found)] if found else []


def _is_earlier(evidence: Evidence) -> bool:
    """Whether all its runs were made by an earlier revision, so that they cannot be repeated by this one."""
    revisions = {run.revision for arm in evidence.arms for run in arm.runs.values()}
    return bool(revisions) and max(revisions) < REVISION


def _is_under_way(evidence: Evidence) -> bool:
    """Whether the comparison that it was made for is not finished yet: its numbers so far decide nothing."""
    if not evidence.plan.pairs:
        return False
    primary = [decisions(evidence, setting)[0] for setting in evidence.settings]
    return all(decision.conclusion == "under way" for decision in primary)


def _answers(found: _Found, link: str, page: Path) -> list[str]:
    """What the experiments say, in a few bullets, and a plot."""
    lines = [line for bullet in _bullets(found.decided)[:_BULLETS] for line in bullet]
    if lines:
        plot = f"![Declared comparisons: differences by seed]({link}/{_ANSWERS}.svg)\n"
        return ["\n".join(lines) + "\n", plot]
    told = [
        markdown_text(verdict(evidence, setting).removeprefix("In short, for "))
        for evidence in found.current
        if evidence.plan.name in (COMPARE, "table2")
        for setting in evidence.settings
    ]
    bullets = ["\n".join(f"- {line}" for line in told[:_BULLETS]) + "\n"] if told else []
    plots = [
        _image(evidence, "finals", page)
        for evidence in found.current
        if evidence.plan.name != FIGURE2 and evidence.arms
    ]
    return [*bullets, *plots[:1]]


def _bullets(decided: Sequence[tuple[str, Sequence[Decision]]]) -> list[list[str]]:
    """One for each comparison, with a line for each experiment that makes it.

    Primary comparisons come first; the others in turn, one of each experiment.
    """
    lines: dict[tuple[str, str], list[str]] = {}
    others = [[(where, each) for each in made if not each.primary] for where, made in decided]
    in_turn: Iterator[tuple[str, Decision] | None] = chain.from_iterable(zip_longest(*others))
    primary = [(where, each) for where, made in decided for each in made if each.primary]
    for where, each in [*primary, *(other for other in in_turn if other is not None)]:
        told = f"{where}: {_WORDS.get(each.conclusion, each.conclusion)}, {each.evidence}."
        lines.setdefault((each.first, each.second), []).append(f"  - {markdown_text(told)}")
    return [
        [f"- **{markdown_text(f'{first[:1].upper()}{first[1:]} against {second}')}**", *found]
        for (first, second), found in lines.items()
    ]


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
        *_folded("Tables, costs and curves", [markdown_tables(evidence), *images[1:]]),
    ]


def _image(evidence: Evidence, kind: str, page: Path) -> str:
    plan = evidence.plan
    texts = {"": "Activations by method"}
    if evidence.arms:
        what = label("test", evidence.arms[0].measure).removesuffix(", %")
        costs = " and against the ".join(cost_names(evidence.arms))
        texts |= {"curves": f"{what.capitalize()} against {costs}", "finals": f"Final {what} by seed"}
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
        rows=tuple(
            _claim_row(claim, "under way" if claim.awaited else words[claim.agreement]) for claim in found
        ),
        words=2,
    )
    return [f"{heading}\n", table.markdown(), *_folded("How claims are judged", [_RULE])]


def _claim_row(claim: Claim, word: str) -> tuple[str, ...]:
    difference, unit = claim.difference, claim.unit
    found = detectable(difference, claim.tests)
    return (
        f"{claim.text} ({', '.join(claim.tables)})",
        word,
        f"{unit.signed(difference.mean)} {unit.word}".rstrip(),
        interval_cell(difference, unit),
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
                *_claims(evidences, "### Claims by the earlier results"),
                *(part for evidence in evidences for part in _experiment(evidence, page, level=3)),
            ],
        ),
    ]


def _under_way(evidences: Sequence[Evidence], page: Path) -> list[str]:
    """Experiments that cannot decide anything yet, below those that can."""
    parts = [part for evidence in evidences for part in _experiment(evidence, page, level=3)]
    return ["## Under way\n", "Seeds are missing: nothing is concluded yet.\n", *parts] if parts else []


def _missing(evidences: Sequence[Evidence]) -> list[str]:
    lines = [
        f"- {markdown_text(evidence.plan.title or evidence.plan.name)}: {markdown_text(line)}"
        for evidence in evidences
        for line in evidence.missing
    ]
    begun = {evidence.plan.name for evidence in evidences}
    if begun - {COMPARE, FIGURE2}:  # who repeats one of the paper's tables is told of the others
        lines += [f"- {name}: not started." for name in EXPERIMENTS if name not in begun]
    return ["## What is missing\n", "\n".join(lines or ["- Nothing: every planned run is finished."]) + "\n"]
