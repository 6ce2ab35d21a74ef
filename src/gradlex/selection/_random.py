"""Random selection: a candidate drawn uniformly, the control of Ding & Spector 2022 (Table 2)."""

from __future__ import annotations

import numpy as np

from gradlex.selection._pools import Probabilities
from gradlex.selection._protocol import CaseErrors, Choice, ErrorTable, Indices, pick


def random(cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
    """Pick any candidate; no case is evaluated.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, random
        >>> choice = random(np.arange(3), TableErrors([[0, 0, 1], [1, 1, 0]]), np.random.default_rng(0))
        >>> choice.reason, choice.cases_used
        ('random', 0)
    """
    pool = errors.candidates
    if len(pool) == 1:
        return Choice(index=int(pool[0]), reason="only_candidate")
    return Choice(index=pick(pool, rng), reason="random")


def random_probabilities(table: ErrorTable) -> Probabilities:
    """The same chance for every candidate."""
    return np.full(len(table), 1 / len(table))
