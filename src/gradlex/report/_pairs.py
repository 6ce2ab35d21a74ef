"""Declared comparisons: what an experiment was made to decide, tested as one family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from gradlex.experiments import METHODS
from gradlex.report._evidence import Arm, Evidence, Setting
from gradlex.report._format import (
    NONE,
    Unit,
    difference_words,
    interval_cell,
    listed,
    number_of,
    p_cell,
    p_value,
    unit_of,
)
from gradlex.report._statistics import LEVEL, POWER, Difference, detectable, holm, paired
from gradlex.report._table import Table
from gradlex.tasks import Measure

EQUIVALENT = 0.3
"""Points within which the whole interval must lie for two methods to be called equivalent."""

Conclusion: TypeAlias = Literal["better", "worse", "equivalent", "open", "under way"]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One declared comparison of two methods on one dataset and model."""

    first: str
    second: str
    """The methods' titles."""
    measure: Measure
    differences: Mapping[int, float]
    """First minus second, by seed."""
    difference: Difference | None
    """None where they share no finished seed."""
    awaited: frozenset[int]
    """Seeds that are planned and not finished: nothing is concluded before they are."""
    primary: bool
    p: float | None = None
    """Of the paired t-test, adjusted by Holm's method for the number of declared comparisons."""
    tests: int = 1
    """That number."""

    @property
    def unit(self) -> Unit:
        """How differences are printed."""
        return unit_of(self.measure)

    @property
    def conclusion(self) -> Conclusion:
        """What the seeds support."""
        if self.awaited:
            return "under way"
        if self.difference is None:
            return "open"
        if self.p is not None and self.p < 1 - LEVEL:
            up = self.difference.mean > 0
            return "better" if up == self.measure.higher_is_better else "worse"
        low, high = self.difference.low, self.difference.high
        bounded = low is not None and high is not None and low > -EQUIVALENT and high < EQUIVALENT
        return "equivalent" if bounded and self.measure.fraction else "open"

    @property
    def detectable(self) -> float | None:
        """The true difference that these seeds find four times out of five."""
        return None if self.difference is None else detectable(self.difference, self.tests)

    @property
    def claim(self) -> str:
        """Branched average is better than SGD"""
        words = {
            "better": "is better than",
            "worse": "is worse than",
            "equivalent": f"is within {EQUIVALENT:g} points of",
            "open": "is not significantly different from",
            "under way": "is not decided yet against",
        }
        if self.difference is None or self.difference.n == 1:
            words["open"] = "cannot be compared yet with"
        return f"{self.first[:1].upper()}{self.first[1:]} {words[self.conclusion]} {self.second}"

    @property
    def evidence(self) -> str:
        """+0.45 points, 95 % interval +0.11 to +0.95, p = 0.031 adjusted for 4 comparisons, 5 seeds, ..."""
        words = []
        if self.difference is not None:
            words.append(difference_words(self.difference, self.unit, self._p_words))
        if self.awaited:
            seeds = sorted(self.awaited)
            words.append(f"seed{'s' if len(seeds) > 1 else ''} {listed(seeds)} to come")
        elif self.conclusion == "open" and self.detectable is not None:
            gap = f"{self.detectable:{self.unit.form}} {self.unit.word}".rstrip()
            words.append(f"{100 * POWER:.0f} % power for {gap}")
        return ", ".join(words) or "no shared seed"

    @property
    def _p_words(self) -> str | None:
        if self.p is None or self.difference is None or self.difference.p is None or self.tests == 1:
            return None
        told = f"{p_value(self.p)} adjusted for {self.tests} comparisons"
        # Without this an interval on one side of zero would look like a mistake.
        alone = self.difference.p < 1 - LEVEL <= self.p
        return f"{told} ({p_cell(self.difference.p)} alone)" if alone else told


def decisions(evidence: Evidence, setting: Setting) -> list[Decision]:
    """The declared comparisons, in the plan's order; adjusted together, finished or not."""
    found = [each for pair in evidence.plan.pairs for each in _compared(evidence, setting, pair)]
    adjusted = holm([each.difference.p if each.difference else None for each in found])
    return [replace(each, p=p, tests=len(found)) for each, p in zip(found, adjusted, strict=True)]


def _compared(evidence: Evidence, setting: Setting, pair: tuple[str, str]) -> list[Decision]:
    """One pair of methods, once for each population and momentum; p is not adjusted yet."""
    arms = list(evidence.on(setting).values())
    primary = pair == evidence.plan.pairs[0]
    found = []
    for first in arms:
        for second in arms:
            if (first.method, second.method) == pair and _alike(first, second):
                seeds = sorted(first.values.keys() & second.values.keys())
                columns = (first.column, second.column)
                found.append(
                    Decision(
                        first=first.title,
                        second=second.title,
                        measure=first.measure,
                        differences={seed: first.values[seed] - second.values[seed] for seed in seeds},
                        difference=paired(first.values, second.values),
                        awaited=frozenset().union(*(evidence.awaited.get(each, ()) for each in columns)),
                        primary=primary,
                    )
                )
    if found:
        return found
    # A method without a finished run: the test counts all the same, now as later.
    awaited = [
        seeds for each, seeds in evidence.awaited.items() if each.setting == setting and each.method in pair
    ]
    titles = (METHODS[name].title for name in pair)
    return [
        Decision(
            first=next(titles),
            second=next(titles),
            measure=arms[0].measure,
            differences={},
            difference=None,
            awaited=frozenset().union(*awaited),
            primary=primary,
        )
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
            "Differences between runs with the same seed, by the paired t-test. Intervals and p are those of one "
            "comparison; adjusted p is by Holm's method for all comparisons, which were declared before the runs, the "
            "primary one first. Better and worse: adjusted p below 0.05. Equivalent: the interval lies within "
            f"±{EQUIVALENT:g} points (two one-sided tests at 0.025, not adjusted). Open: neither. Under way: seeds "
            "are still to come. Detectable: the true difference that so many seeds with this scatter find four times "
            "out of five, at 0.05 divided by the number of comparisons.",
        ),
        words=2,
    )


def _row(decision: Decision) -> tuple[str, ...]:
    difference, unit = decision.difference, decision.unit
    return (
        f"{decision.first} minus {decision.second}{' (primary)' if decision.primary else ''}",
        decision.conclusion,
        NONE if difference is None else unit.signed(difference.mean),
        interval_cell(difference, unit),
        p_cell(None if difference is None else difference.p),
        p_cell(decision.p),
        str(len(decision.differences)),
        NONE if decision.detectable is None else f"{decision.detectable:{unit.form}}",
    )


def pairs_verdict(evidence: Evidence, setting: Setting) -> str:
    """The declared comparisons in sentences."""
    found = decisions(evidence, setting)
    if not any(decision.differences for decision in found):
        number = number_of(len(evidence.plan.pairs), "declared comparison")
        return f"None of the {number} has finished runs on both sides."
    sentences = (f"{decision.claim} ({decision.evidence})." for decision in found)
    return f"In short, for {evidence.where(setting)}: {' '.join(sentences)}"


def _alike(first: Arm, second: Arm) -> bool:
    """Whether two arms differ by their method alone: SGD has no population of its own."""
    if METHODS[first.method].is_sgd or METHODS[second.method].is_sgd:
        return True
    same = ("population", "momentum")
    return all(getattr(first.recipe, name) == getattr(second.recipe, name) for name in same)
