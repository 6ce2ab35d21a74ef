"""The one rule that decides a comparison, and the sentences that say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeAlias

import pandas as pd

from gradlex.report.frames import Study
from gradlex.report.statistics import LEVEL, Difference, detectable, holm, paired, seeds_needed
from gradlex.report.words import NONE, Unit, capital, number_of, p_text, title_of, unit_of

Answer: TypeAlias = Literal["better", "worse", "equivalent", "open", "under way"]

MARGIN = 0.003
"""Equivalent: the interval of a difference of fractions lies within 0.3 points of zero."""

_HEADLINES: dict[Answer, str] = {
    "better": "Better",
    "worse": "Worse",
    "equivalent": "No difference",
    "open": "No gain shown",
    "under way": "Under way",
}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A comparison of two methods and its answer: better, worse, equivalent, open or under way.

    Attributes:
        first: The method that is judged.
        second: The method it is compared with.
        difference: First minus second over the seeds that both have finished; None without any.
        means: The mean of each over these seeds.
        adjusted: p by Holm's method for all comparisons that were decided together.
        tests: Their number.
        planned: The number of planned seeds.
        answer: By the rule of `decide`.
        unit: How values are printed.
    """

    first: str
    second: str
    difference: Difference | None
    means: tuple[float, float] | None
    adjusted: float | None
    tests: int
    planned: int
    answer: Answer
    unit: Unit

    @property
    def title(self) -> str:
        """lexicase minus SGD"""
        return f"{title_of(self.first)} minus {title_of(self.second)}"

    @property
    def interval(self) -> str:
        """+0.93 to +1.57; a dash without one."""
        found = self.difference
        if found is None or found.low is None:
            return NONE
        return f"{self.unit.bare(found.low, '+')} to {self.unit.bare(found.high, '+')}"

    @property
    def cells(self) -> tuple[str, ...]:
        """Difference, interval, adjusted p, seeds, p, and the difference that this many seeds can find."""
        found = self.difference
        if found is None:
            return (NONE, NONE, NONE, "0", NONE, NONE)
        finds, mean = self.unit.bare(detectable(found, self.tests)), self.unit.bare(found.mean, "+")
        return (mean, self.interval, p_text(self.adjusted), str(found.n), p_text(found.p), finds)

    @property
    def sentence(self) -> str:
        """What a person would say: both values, and what follows or what is missing."""
        if self.difference is None or self.means is None:
            return f"{capital(self.title)}: no seed has finished with a number yet."
        ours, theirs = (self.unit.value(mean, 1) for mean in self.means)
        first, second = title_of(self.first), title_of(self.second)
        return f"{_HEADLINES[self.answer]}: {first} {ours}, {second} {theirs}. {self._because(self.difference)}"

    def _because(self, difference: Difference) -> str:
        found, seeds = difference, number_of(difference.n, "seed")
        if self.answer == "under way":
            return f"{found.n} of {self.planned} seeds are finished, so nothing is decided yet."
        if self.answer == "open":
            return _what_is_missing(found, self.tests)
        gap = f"The difference is {self.unit.signed(found.mean)}, 95% interval {self.interval}, over {seeds}"
        if self.answer == "equivalent":
            return f"{gap}: within ±{self.unit.signed(MARGIN)[1:]}."
        return f"{gap} (adjusted p {p_text(self.adjusted)})."


def decide(
    frame: pd.DataFrame,
    pairs: Iterable[tuple[str, str]] = (),
    *,
    metric: str = "accuracy",
    higher_is_better: bool = True,
    fraction: bool | None = None,
    seeds: Sequence[int] = (),
) -> list[Decision]:
    """Decide comparisons of methods that were declared together.

    Runs with the same seed are compared by the paired t-test, and p is adjusted by Holm's method. A method is better
    or worse if adjusted p is below 0.05, equivalent if the 95% interval lies within ±0.3 points (fractions only), else
    the comparison is open. Nothing is decided while planned seeds are missing: it is under way.

    Args:
        frame: One row per run, as `gradlex.results` returns it.
        pairs: Which method is compared with which, the primary comparison first; all count in Holm's adjustment
            (default: each method against SGD with as many samples).
        metric: What is compared, on the test part.
        higher_is_better: Whether a higher value is a better one.
        fraction: Whether the metric is a fraction, printed as a percentage (default: by its name).
        seeds: The planned seeds (default: all that the frame has).

    Examples:
        >>> import pandas as pd
        >>> from gradlex.report import decide
        >>> runs = [("lexicase", 0, 0.38), ("lexicase", 1, 0.406), ("sgd", 0, 0.471), ("sgd", 1, 0.451)]
        >>> frame = pd.DataFrame(runs, columns=["method", "seed", "test_accuracy"])
        >>> print(decide(frame, [("lexicase", "sgd")])[0].sentence)
        No gain shown: lexicase 39.3%, SGD 46.1%. Two seeds cannot decide; about 5 would.
    """
    pairs = list(pairs) or usual_pairs(list(dict.fromkeys(frame.method)))
    planned = len(seeds) or frame.seed.nunique()
    differences, means = [], []
    for first, second in pairs:
        ours, theirs = values(frame, first, metric), values(frame, second, metric)
        found = paired(ours, theirs)
        differences.append(found)
        means.append(None if found is None else (_mean(ours, found), _mean(theirs, found)))
    unit = unit_of(metric, fraction)
    adjusted = holm([None if each is None else each.p for each in differences])
    return [
        Decision(
            first=first,
            second=second,
            difference=difference,
            means=both,
            adjusted=p,
            tests=len(pairs),
            planned=planned,
            answer=_answer(difference, p, planned, higher_is_better, unit),
            unit=unit,
        )
        for (first, second), difference, both, p in zip(pairs, differences, means, adjusted, strict=True)
    ]


def decisions(study: Study) -> list[Decision]:
    """The declared comparisons of a study, or its usual ones if none are declared."""
    return decide(
        study.runs,
        study.pairs or usual_pairs(study.methods),
        metric=study.metric,
        higher_is_better=study.higher_is_better,
        fraction=study.fraction,
        seeds=study.seeds,
    )


def usual_pairs(methods: Sequence[str]) -> list[tuple[str, str]]:
    """Each method against SGD on equal samples, or against SGD, or against the first; lexicase comes first."""
    rivals = [name for name in ("sgd-matched", "sgd") if name in methods] or list(methods[:1])
    others = [name for name in methods if name not in ("sgd", "sgd-matched", rivals[0])]
    return [(name, rivals[0]) for name in sorted(others, key=lambda name: name != "lexicase")]


def values(frame: pd.DataFrame, method: str, metric: str) -> dict[int, float]:
    """A method's final values on the test part, by seed."""
    column = f"test_{metric}"
    if column not in frame:
        return {}
    found = frame.loc[frame.method == method].set_index("seed")[column].astype(float)
    return {int(seed): float(value) for seed, value in found.items() if pd.notna(value)}


def _answer(
    found: Difference | None, adjusted: float | None, planned: int, higher_is_better: bool, unit: Unit
) -> Answer:
    """The rule."""
    if found is None or found.n < planned:
        return "under way"
    if adjusted is not None and adjusted < 1 - LEVEL:
        return "better" if (found.mean > 0) == higher_is_better else "worse"
    if unit.percent and found.low is not None and found.high is not None:
        return "equivalent" if found.low > -MARGIN and found.high < MARGIN else "open"
    return "open"


def _what_is_missing(found: Difference, tests: int) -> str:
    if found.n == 1:
        return "One seed cannot decide; run at least three."
    if found.error is None:
        return "All seeds show the same difference, so there is no interval."
    needed = seeds_needed(found, tests)
    many = "more than 100" if needed is None else f"about {needed}"
    return f"{capital(number_of(found.n, 'seed'))} cannot decide; {many} would."


def _mean(by_seed: dict[int, float], found: Difference) -> float:
    return fmean(by_seed[seed] for seed in found.by_seed)
