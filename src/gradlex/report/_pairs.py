"""Declared comparisons: what an experiment was made to decide, tested as one family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gradlex.experiments import METHODS
from gradlex.report._evidence import Arm, Evidence, Setting
from gradlex.report._format import NONE, difference_words, number_of, p_cell, p_value
from gradlex.report._statistics import LEVEL, Difference, detectable, holm, paired
from gradlex.report._table import Table

EQUIVALENT = 0.3
"""Points within which the whole interval must lie for two methods to be called equivalent."""

Conclusion: TypeAlias = Literal["better", "worse", "equivalent", "open"]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One declared comparison of two methods on one dataset and model."""

    first: Arm
    second: Arm
    difference: Difference
    p: float | None
    """Of the paired t-test, adjusted by Holm's method for the number of declared comparisons."""
    primary: bool

    @property
    def conclusion(self) -> Conclusion:
        """What the seeds support."""
        if self.p is not None and self.p < 1 - LEVEL:
            up = self.difference.mean > 0
            return "better" if up == self.first.measure.higher_is_better else "worse"
        low, high = self.difference.low, self.difference.high
        bounded = low is not None and high is not None and low > -EQUIVALENT and high < EQUIVALENT
        return "equivalent" if bounded and self.first.measure.fraction else "open"

    @property
    def claim(self) -> str:
        """Branched average is better than SGD"""
        words = {
            "better": "is better than",
            "worse": "is worse than",
            "equivalent": f"is within {EQUIVALENT:g} points of",
            "open": "is not significantly different from",
        }
        if self.difference.n == 1:
            words["open"] = "cannot be compared yet with"
        title = self.first.title
        return f"{title[:1].upper()}{title[1:]} {words[self.conclusion]} {self.second.title}"

    @property
    def evidence(self) -> str:
        """+0.45 points, 95 % interval +0.11 to +0.95, p = 0.031, 5 seeds, ..."""
        unit, found = self.first.unit, detectable(self.difference)
        words = [difference_words(self.difference, unit)]
        if self.p is not None:
            words.append(f"adjusted {p_value(self.p)}")
        if self.conclusion == "open" and found is not None:
            words.append(f"{found:{unit.form}} {unit.word} could have been detected".replace("  ", " "))
        return ", ".join(words)


def decisions(evidence: Evidence, setting: Setting) -> list[Decision]:
    """The declared comparisons that have seeds on both sides, in the plan's order; adjusted together."""
    arms = list(evidence.on(setting).values())
    found = [
        (first, second, difference, pair == evidence.plan.pairs[0])
        for pair in evidence.plan.pairs
        for first in arms
        for second in arms
        if (first.method, second.method) == pair and _alike(first, second)
        if (difference := paired(first.values, second.values)) is not None
    ]
    adjusted = holm([difference.p for _, _, difference, _ in found])
    return [
        Decision(first=first, second=second, difference=difference, p=p, primary=primary)
        for (first, second, difference, primary), p in zip(found, adjusted, strict=True)
    ]


def decision_table(evidence: Evidence, setting: Setting) -> Table:
    """One row for each declared comparison."""
    unit = next(iter(evidence.on(setting).values())).unit
    word = f", {unit.word}" if unit.word else ""
    return Table(
        title=f"Declared comparisons: {setting}",
        columns=(
            "comparison",
            "conclusion",
            f"difference{word}",
            "95 % interval",
            "p",
            "p, adjusted",
            "seeds",
            "detectable",
        ),
        rows=tuple(_row(decision) for decision in decisions(evidence, setting)),
        notes=(
            "Differences between runs with the same seed, by the paired t-test; p is adjusted by Holm's method for the "
            "number of comparisons, which were declared before the runs, the primary one first. Better and worse: "
            f"adjusted p below 0.05. Equivalent: the interval lies within ±{EQUIVALENT:g} points. Open: neither. "
            "Detectable: the true difference that so many seeds with this scatter find four times out of five.",
        ),
        words=2,
    )


def _row(decision: Decision) -> tuple[str, ...]:
    difference, unit = decision.difference, decision.first.unit
    found = detectable(difference)
    interval = (
        NONE
        if difference.low is None or difference.high is None
        else f"{unit.signed(difference.low)} to {unit.signed(difference.high)}"
    )
    return (
        f"{decision.first.title} minus {decision.second.title}{' (primary)' if decision.primary else ''}",
        decision.conclusion,
        unit.signed(difference.mean),
        interval,
        p_cell(difference.p),
        p_cell(decision.p),
        str(difference.n),
        NONE if found is None else f"{found:{unit.form}}",
    )


def pairs_verdict(evidence: Evidence, setting: Setting) -> str:
    """The declared comparisons in sentences."""
    found = decisions(evidence, setting)
    if not found:
        number = number_of(len(evidence.plan.pairs), "declared comparison")
        return f"None of the {number} has finished runs on both sides."
    sentences = (f"{decision.claim} ({decision.evidence})." for decision in found)
    return f"In short, for {setting}: {' '.join(sentences)}"


def _alike(first: Arm, second: Arm) -> bool:
    """Whether two arms differ by their method alone: SGD has no population of its own."""
    if METHODS[first.method].is_sgd or METHODS[second.method].is_sgd:
        return True
    same = ("population", "momentum")
    return all(getattr(first.recipe, name) == getattr(second.recipe, name) for name in same)
