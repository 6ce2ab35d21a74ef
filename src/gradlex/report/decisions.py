"""The rule that decides a comparison, and the sentence that reports the decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pandas as pd

from gradlex.report.frames import Study
from gradlex.report.statistics import LEVEL, Difference, holm, paired, seeds_needed
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
        difference: First minus second over the seeds that both have finished.
        adjusted: The p-value, adjusted by Holm's method for all comparisons decided together.
        tests: How many comparisons were decided together.
        planned: How many seeds are planned.
        higher_is_better: Whether a higher value is a better one.
        unit: How values are printed.
    """

    first: str
    second: str
    difference: Difference
    adjusted: float | None
    tests: int
    planned: int
    higher_is_better: bool
    unit: Unit

    @property
    def answer(self) -> Answer:
        """The answer by the rule that `decide` describes."""
        found = self.difference
        if found.n < max(self.planned, 1):
            return "under way"
        if self.adjusted is not None and self.adjusted < 1 - LEVEL:
            return "better" if (found.mean > 0) == self.higher_is_better else "worse"
        if self.unit.percent and found.interval is not None and max(map(abs, found.interval)) < MARGIN:
            return "equivalent"
        return "open"

    @property
    def title(self) -> str:
        """The comparison's name, such as "lexicase minus SGD"."""
        return f"{title_of(self.first)} minus {title_of(self.second)}"

    @property
    def interval(self) -> str:
        """The 95% interval as text, such as "+0.93 to +1.57"; a dash if there is none."""
        found = self.difference.interval
        return NONE if found is None else " to ".join(self.unit.bare(end, "+") for end in found)

    @property
    def sentence(self) -> str:
        """The verdict in words: both values, and the evidence or what is missing."""
        found, unit, seeds = self.difference, self.unit, number_of(self.difference.n, "seed")
        if not found.n:
            return f"{capital(self.title)}: no seed has finished with a number yet."
        because = f"The difference is {unit.signed(found.mean)}, 95% interval {self.interval}, over {seeds}"
        if self.answer == "under way":
            because = f"{found.n} of {self.planned} seeds are finished, so nothing is decided yet."
        elif self.answer == "equivalent":
            because += f": within ±{unit.signed(MARGIN)[1:]}."
        elif self.answer != "open":
            because += f" (adjusted p {p_text(self.adjusted)})."
        elif found.n == 1:
            because = "One seed cannot decide; run at least three."
        elif found.p is None:
            because = "All seeds show the same difference, so there is no interval."
        else:
            needed = seeds_needed(found, self.tests)
            many = "more than 100" if needed is None else f"about {needed}"
            because = f"{capital(seeds)} cannot decide; {many} would."
        names, means = (self.first, self.second), found.means
        both = (f"{title_of(name)} {unit.value(mean, 1)}" for name, mean in zip(names, means, strict=True))
        return f"{_HEADLINES[self.answer]}: {', '.join(both)}. {because}"


def decide(
    frame: pd.DataFrame,
    pairs: Iterable[tuple[str, str]] = (),
    *,
    metric: str = "accuracy",
    higher_is_better: bool = True,
    fraction: bool | None = None,
    seeds: Sequence[int] = (),
) -> list[Decision]:
    """Decide a family of comparisons, declared together.

    Runs with the same seed are compared by the paired t-test, and p is adjusted by Holm's method. A method is better
    or worse if adjusted p is below 0.05, equivalent if the 95% interval lies within ±0.3 points (fractions only), else
    the comparison is open. While planned seeds are missing, it is under way.

    Args:
        frame: One row per run, as `gradlex.results` returns it.
        pairs: Which method is compared with which, the primary comparison first; all count in Holm's adjustment
            (default: each method against SGD with as many samples, or else against SGD, or else the first method).
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
    found = [paired(*(values(frame, name, f"test_{metric}") for name in pair)) for pair in pairs]
    return [
        Decision(
            first=first,
            second=second,
            difference=difference,
            adjusted=adjusted,
            tests=len(pairs),
            planned=len(seeds) or frame.seed.nunique(),
            higher_is_better=higher_is_better,
            unit=unit_of(metric, fraction),
        )
        for (first, second), difference, adjusted in zip(pairs, found, holm([each.p for each in found]), strict=True)
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
    """Each method against SGD with as many samples, or else SGD, or else the first method; lexicase comes first."""
    rivals = [name for name in ("sgd-matched", "sgd") if name in methods] or list(methods[:1])
    others = [name for name in methods if name not in ("sgd", "sgd-matched", rivals[0])]
    return [(name, rivals[0]) for name in sorted(others, key=lambda name: name != "lexicase")]


def values(frame: pd.DataFrame, method: str, column: str) -> pd.Series[float]:
    """The numbers of a method's runs in a column, by seed."""
    runs = frame[frame.method == method].set_index("seed")
    found = runs.get(column, pd.Series(dtype=float)).astype(float).dropna()
    return found[~found.index.duplicated(keep="last")]
