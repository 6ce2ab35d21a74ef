"""Random selection: a candidate drawn uniformly, the control of Ding & Spector 2022 (Table 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, Rng, pick
from gradlex.selection.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Random(Strategy):
    """Pick any candidate; no case is evaluated.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Random, TableErrors
        >>> choice = Random()(np.arange(3), TableErrors([[0, 0, 1], [1, 1, 0]]), np.random.default_rng(0))
        >>> choice.reason, choice.cases_used
        ('random', 0)
    """

    name: ClassVar[str] = "random"
    paper: ClassVar[str] = "Ding & Spector 2022, Table 2"

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        pool = errors.candidates
        return Choice(index=pick(pool, rng), reason="random")

    def probabilities(self, table: ErrorTable) -> Floats | None:
        """The same chance for every candidate."""
        return np.full(len(table), 1 / len(table))


class Sgd(Random):
    """The baseline: one candidate, which is always the parent."""

    name: ClassVar[str] = "sgd"
    paper: ClassVar[str] = "the baseline: one candidate, inherited momentum"
