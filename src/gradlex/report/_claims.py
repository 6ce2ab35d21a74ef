"""The paper's claims, each checked by rule: does the interval of the paired difference exclude zero, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gradlex.report._evidence import Arm, Evidence
from gradlex.report._format import difference_words
from gradlex.report._statistics import Difference, paired


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One method above another on one dataset and model, and what the runs say."""

    text: str
    difference: Difference
    runs: frozenset[Path]
    """What the difference rests on."""
    tables: tuple[str, ...] = ()
    """Where the runs are planned."""

    @property
    def line(self) -> str:
        """The claim with its evidence."""
        return f"{self.text} ({', '.join(self.tables)}): {difference_words(self.difference)}."


def claims(evidences: Iterable[Evidence]) -> list[Claim]:
    """Every claim of the paper that has runs on both sides, once, in the order of the plans."""
    found: dict[tuple[str, frozenset[Path]], Claim] = {}  # tables share runs
    for evidence in evidences:
        for setting in evidence.settings:
            for claim in _on(list(evidence.on(setting).values())):
                before = found.get((claim.text, claim.runs), claim)
                tables = (*before.tables, evidence.plan.name)
                found[claim.text, claim.runs] = replace(before, tables=tables)
    return list(found.values())


def _on(arms: list[Arm]) -> Iterator[Claim]:
    for arm in arms:
        recipe = arm.recipe
        # The paper claims a gain for lexicase with momentum that is reset; the other two it tries and drops.
        if arm.method != "lexicase" or recipe.momentum != "reset":
            continue
        name = f"Lexicase (p = {recipe.population})"
        for other in arms:
            like = other.recipe
            same = like.population == recipe.population and like.momentum == recipe.momentum
            ratio = recipe.require("generations") / like.require("generations")
            if other.method == "sgd":
                yield from _claim(arm, other, f"{name} above SGD at {ratio:.3g} times its generations")
            elif other.method in ("random", "tournament") and same:
                yield from _claim(arm, other, f"{name} above {other.method} selection")
            elif other.method == "lexicase" and like.population == recipe.population and not same:
                yield from _claim(
                    arm, other, f"{name} with momentum reset above {_MOMENTA[str(like.momentum)]}"
                )


_MOMENTA = {"none": "no momentum", "inherit": "inherited momentum"}


def _claim(arm: Arm, other: Arm, text: str) -> Iterator[Claim]:
    difference = paired(arm.accuracies, other.accuracies)
    if difference is not None:
        runs = frozenset(run.path for side in (arm, other) for run in side.runs.values())
        yield Claim(text=f"{text}, {arm.setting}", difference=difference, runs=runs)
