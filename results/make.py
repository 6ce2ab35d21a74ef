"""RESULTS.md, its plots and its appendix, made from the records in this folder: python results/make.py

An experiment's questions stand in its experiment.json: {"questions": [{"pair": [first, second], "question": text}]}.
What they mean is read from findings.md.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gradlex.errors import InputError
from gradlex.report import figures
from gradlex.report.decisions import Decision, decisions
from gradlex.report.frames import EXPERIMENT, Study, studies
from gradlex.report.paper import figure2
from gradlex.report.tables import Table, tables
from gradlex.report.words import NONE, capital

FINDINGS = "findings.md"
"""The author's words in the folder of results, which the page takes in below its table."""

_ANSWERS = {
    "better": "{0} is better than {1}",
    "worse": "{0} is worse than {1}",
    "equivalent": "{0} is as good as {1}",
    "open": "It is open whether {0} is better than {1}",
    "under way": "Under way: {0} against {1}",
}


@dataclass(frozen=True)
class Question:
    """A question, and the comparison that answers it."""

    pair: tuple[str, str]
    question: str


def make(folder: Path, page: Path) -> None:
    """Write the page, and its plots and its appendix (README.md) into the folder of the experiments."""
    found = [(study, decisions(study)) for study in studies(folder)]
    asked = [
        (study, question, _decided(study, comparisons, question))
        for study, comparisons in found
        for question in questions_of(study)
    ]
    if not asked:
        raise InputError(f"{folder} holds no experiment with a question: add one to its experiment.json.")
    here = os.path.relpath(folder, page.parent)
    # While nothing is decided, an experiment has one row and no panel.
    decided = [each for each in asked if each[2].answer != "under way"]
    known = {study.title for study, *_ in decided}
    waiting = {study.title: (study, *rest) for study, *rest in reversed(asked) if study.title not in known}
    asked = [each for each in asked if each[0].title in known or each == waiting[each[0].title]]
    groups = {study.title: [answer for other, _, answer in asked if other is study] for study, *_ in decided or asked}
    findings = (folder / FINDINGS).read_text(encoding="utf-8") if (folder / FINDINGS).exists() else ""
    _, first, decision = next((each for each in asked if each[2].answer in figures.VERDICTS), asked[0])
    files, answers = dict[Path, str](), figures.forest(list(groups.items()))
    files[page] = "\n\n".join(
        [
            f"# Results\n\n**{statement(first, decision)}.**",
            _questions_table(asked).markdown().strip(),
            findings.strip(),
            f"![Differences with 95% intervals]({here}/answers.svg)",
            f"The [appendix]({here}/README.md) has all comparisons, costs, curves, and how selection went. This page, "
            "the appendix and the plots are made from the records by `python results/make.py`.",
        ]
    )
    files[folder / "answers.svg"] = answers
    parts = ["# Appendix: all results", f"The answers are in [{page.name}]({os.path.relpath(page, folder)})."]
    for study, comparisons in found:
        parts.extend(_section(study, comparisons, folder, files))
    files[folder / "README.md"] = "\n\n".join(part.strip() for part in parts if part.strip())
    for path, text in files.items():
        path.write_text(f"{text.strip()}\n", encoding="utf-8")


def questions_of(study: Study) -> list[Question]:
    """The questions that an experiment's file names."""
    given = json.loads((study.path / EXPERIMENT).read_text(encoding="utf-8")).get("questions", [])
    return [Question(tuple(each["pair"]), each["question"]) for each in given]


def statement(asked: Question, decision: Decision) -> str:
    """The answer to a question of the form "Is A better than B?" as a sentence; other questions keep their words."""
    match = re.fullmatch(r"Is (.+?) better than (.+)\?", asked.question)
    if match is None:
        return f"{asked.question} {capital(decision.answer)}"
    return capital(_ANSWERS[decision.answer].format(*match.groups()))


def _decided(study: Study, comparisons: list[Decision], asked: Question) -> Decision:
    found = [each for each in comparisons if (each.first, each.second) == asked.pair]
    if not found:
        raise InputError(f"{study.path}: a question is about {' and '.join(asked.pair)}, which is not among its pairs.")
    return found[0]


def _questions_table(asked: list[tuple[Study, Question, Decision]]) -> Table:
    rows = []
    for study, question, decision in asked:
        found = decision.difference
        gap = NONE
        if decision.answer != "under way":
            gap = f"{decision.unit.signed(found.mean)} ({decision.interval})"
        answer = f"**{decision.answer}**" if decision.answer in figures.VERDICTS else decision.answer
        seeds = f"{found.n}" if found.n == decision.planned else f"{found.n} of {decision.planned}"
        rows.append((question.question, study.setting or study.title, answer, gap, seeds))
    return Table(
        title="",
        columns=("question", "setting", "answer", "difference (95% interval)", "seeds"),
        rows=tuple(rows),
        words=3,
    )


def _section(study: Study, comparisons: list[Decision], folder: Path, files: dict[Path, str]) -> Iterator[str]:
    """One experiment in the appendix; its plots go to `files`."""
    drawn = figures.drawings(study, comparisons)
    files.update({study.path / f"{name}.svg": drawing for name, drawing in drawn.items()})
    here = os.path.relpath(study.path, folder)
    yield f"## {study.title}\n\n{study.setting}\n\n{study.note}"
    yield from (table.markdown() for table in tables(study, comparisons))
    yield " ".join(f"![{capital(name)}]({here}/{name}.svg)" for name in drawn)
    if next(study.path.glob("*/seed*/activations.npz"), None):
        yield figure2(study.path).markdown()
        yield f"![Figure 2]({here}/figure2.svg)"
    if study.command:
        yield "```\n" + study.command.replace(" --", " \\\n  --") + "\n```"


if __name__ == "__main__":
    HERE = Path(__file__).parent
    os.chdir(HERE.parent)  # pages link to each other
    make(Path("results"), Path("RESULTS.md"))
