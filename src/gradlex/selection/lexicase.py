"""Lexicase selection (Spector 2012; Helmuth, Spector & Matheson 2015), as in Ding & Spector 2022.

Go through the cases in random order and keep only the candidates that are best on each. Under the paper's rule (its
section 3.2) a case that every remaining candidate fails ends the selection, and one of them is picked at random; under
the classic rule they all survive it. `on_all_fail` chooses the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from gradlex._checks import Count
from gradlex.errors import InputError
from gradlex.selection.chances import lexicase_probabilities
from gradlex.selection.parents import lexicase_parents
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, Rng, Trail, pick, slices
from gradlex.selection.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Lexicase(Strategy):
    """Filter the pool case by case until one candidate is left (Algorithm 1, the inner loop).

    Args:
        on_all_fail: What happens at a case that every remaining candidate fails: "random" picks one of them, "survive"
            goes on with all of them. Any error above 0 is a failure, so with graded errors, such as a loss, "random"
            would soon end in a random choice. None is "random", but "survive" where errors are known to be graded.
        depth: The most cases to use (None: no limit). If several candidates remain, one is picked at random.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Lexicase, TableErrors
        >>> errors = TableErrors([[0, 1, 0], [0, 0, 1], [1, 0, 0]])  # (candidates, cases)
        >>> choice = Lexicase()(np.array([0, 2, 1]), errors, np.random.default_rng(0))
        >>> choice.index, choice.reason, choice.cases_used
        (0, 'sole_survivor', 2)
        >>> choice.survivors  # after how many cases which candidates were left
        ((1, (0, 1)), (2, (0,)))
    """

    name: ClassVar[str] = "lexicase"
    paper: ClassVar[str] = "Spector 2012; Ding & Spector 2022"

    on_all_fail: Literal["random", "survive"] | None = None
    depth: Count | None = None

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        pool = errors.candidates
        trail = Trail()
        for part in slices(cases[: self.depth]):
            table = errors(part, pool)  # (pool, cases)
            best = table.min(axis=0)
            start = trail.used
            alive = np.ones(len(pool), dtype=bool)
            # Only a case that splits the pool at the slice's start, or that this whole pool fails, can matter; few do.
            for column in np.flatnonzero((table > best).any(axis=0) | (best > 0)):
                values = table[alive, column]
                lowest = values.min()
                if lowest > 0 and self._ends:
                    trail.used = start + int(column) + 1
                    trail.deciding.append(int(part[column]))
                    return trail.choose(pick(pool[alive], rng), "all_failed")
                if (values == lowest).all():
                    continue
                alive[alive] = values == lowest
                trail.used = start + int(column) + 1
                trail.shrink(pool[alive], part[column])
                if alive.sum() == 1:
                    return trail.choose(int(pool[alive][0]), "sole_survivor")
            pool = pool[alive]
            trail.used = start + len(part)
        return trail.choose(pick(pool, rng), "exhausted")

    @property
    def _ends(self) -> bool:
        """Whether a case that every remaining candidate fails ends the selection."""
        return self.on_all_fail != "survive"

    def settled(self, *, graded: bool) -> Lexicase:
        """The strategy with `on_all_fail` resolved: "survive" if the errors are graded, where "random" is an error."""
        if graded and self.on_all_fail == "random":
            raise InputError(
                f"selection '{self}' needs 0 (solved) and 1 (failed) as errors, and these are graded: leave "
                "on_all_fail out, or use 'survive', the classic rule."
            )
        return replace(self, on_all_fail="survive") if graded else self

    def parents(self, table: ErrorTable, k: int, rng: Rng) -> Indices | None:
        """`k` parents, each by its own order of the cases."""
        return lexicase_parents(table, k, rng, ends=self._ends, depth=self.depth)

    def probabilities(self, table: ErrorTable) -> Floats | None:
        """The exact chances over all orders of the cases."""
        return lexicase_probabilities(table, ends=self._ends, depth=self.depth)
