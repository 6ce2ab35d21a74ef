"""What becomes the parent: the winner alone, or a mean of several candidates.

- winner: the chosen candidate (Ding & Spector 2022);
- average: every candidate alike, which is local SGD (Stich 2019; Lin et al. 2020); no case is evaluated;
- expected: each candidate by its chance to be chosen, the expected parent of the strategy; unpublished as far as we
  know. Exact up to a fixed amount of work, estimated beyond it (see `selection_chances`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradlex._checks import check
from gradlex.errors import InputError
from gradlex.recipe import Promotion
from gradlex.selection.protocol import CaseErrors, Choice, Floats, Indices, Rng, Selection
from gradlex.selection.random_choice import Random, Sgd
from gradlex.selection.strategy import Strategy
from gradlex.selection.table import chances_of, exact_selections


def promoting(promotion: Promotion, strategy: Selection) -> Selection:
    """A strategy whose Choices carry the weights of the parent; a single candidate needs none.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Lexicase, TableErrors
        >>> from gradlex.selection.promotion import promoting
        >>> select, errors = promoting("expected", Lexicase()), TableErrors([[0, 0, 0, 1], [1, 1, 1, 0]])
        >>> select(np.arange(4), errors, np.random.default_rng(0)).weights
        {0: 0.75, 1: 0.25}
    """
    check("promotion", Promotion, promotion)
    if promotion == "winner" or isinstance(strategy, Sgd):  # one candidate is the parent, whatever the promotion
        return strategy
    # A random choice's expected parent is the average.
    average = promotion == "average" or isinstance(strategy, Random)
    if not average and not (isinstance(strategy, Strategy) and strategy.has_exact_chances):
        raise InputError(
            f"promotion 'expected' needs exact probabilities, as {exact_selections()} have them, got '{strategy}': use "
            "one of these, or promotion 'average'."
        )
    return _Mean(strategy, promotion, average)


@dataclass(frozen=True)
class _Mean:
    strategy: Selection
    promotion: Promotion
    average: bool

    def __call__(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        pool = errors.candidates
        if len(pool) == 1:
            return self.strategy(cases, errors, rng)
        reason, used, chances = str(self.promotion), 0, np.ones(len(pool))
        if not self.average:
            # In the order of the data, in which epsilons are given.
            found = chances_of(self.strategy, errors.matrix())
            reason, used, chances = "expected" if found.exact else "estimated", len(cases), found.values
        shares: Floats = chances / chances.sum()
        return Choice(
            index=int(pool[shares.argmax()]),
            reason=reason,
            cases_used=used,
            memory=errors.memory,
            weights={int(i): float(share) for i, share in zip(pool, shares, strict=True) if share > 0},
        )
