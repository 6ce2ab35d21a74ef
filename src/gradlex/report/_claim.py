"""A claim of the paper and what runs say to it, by one rule: on which side of zero is their difference's interval?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradlex.report._format import difference_words
from gradlex.report._statistics import Difference


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One method above another on one dataset and model, or below, and what the runs say."""

    text: str
    difference: Difference
    side: int
    """1: the paper has it above; -1: below."""
    runs: frozenset[Path]
    """What the difference rests on."""
    tables: tuple[str, ...] = ()
    """Where the runs are planned."""
    unit: str = "points"

    @property
    def agreement(self) -> int:
        """1: the runs agree with the paper; -1: they do not; 0: nothing can be concluded."""
        return self.side * self.difference.sign

    @property
    def line(self) -> str:
        """The claim with its evidence."""
        return f"{self.text} ({', '.join(self.tables)}): {difference_words(self.difference, self.unit)}."
