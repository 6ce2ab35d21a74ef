"""DALex, diversely aggregated lexicase selection (Ni, Ding & Spector 2024).

Each case gets a weight, the softmax of a draw from N(0, sigma^2); the candidate with the least weighted sum of errors
wins. A large sigma makes the heaviest case matter more than all the others together, and so on down: lexicase. Sigma 0
is the mean error.

At sigma 200 a plain sum loses all but the heaviest cases, and candidates that differ tie. Hence each case's minimum is
subtracted first (which changes no comparison), and candidates still too close to separate are compared once more on the
cases on which they differ. An infinite error counts as 1e300. Ties are random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, Mask, Rng, decided, pick
from gradlex.selection.strategy import Strategy

_BLOCK = 1 << 20
"""How many (parent, candidate) or (parent, case) pairs are held at once, at most."""


@dataclass(frozen=True, kw_only=True)
class Dalex(Strategy):
    """The least weighted error over every case, weights drawn anew.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import Dalex, TableErrors, select_parents
        >>> errors = [[0, 0, 1], [1, 1, 0]]
        >>> Dalex(sigma=0)(np.arange(3), TableErrors(errors), np.random.default_rng(0)).index  # equal weights
        0
        >>> sorted(set(select_parents(errors, 100, Dalex(sigma=200), rng=0).tolist()))  # nearly lexicase
        [0, 1]
    """

    name: ClassVar[str] = "dalex"
    paper: ClassVar[str] = "Ni, Ding & Spector 2024"

    # Beyond 1e300, draws times sigma would overflow.
    sigma: Annotated[float, Field(ge=0, le=1e300), "a number of at least 0"] = 200.0

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        values = _finite(errors.matrix())
        scores = self.sigma * rng.standard_normal((values.shape[1],))
        best = errors.candidates[_lightest(values, scores)]
        return decided(cases, best, pick(best, rng), "best_weighted")

    def parents(self, table: ErrorTable, k: int, rng: Rng) -> Indices | None:
        """`k` independent parents: one matrix product, then the close ones."""
        values = _finite(table)
        shifted = values - values.min(axis=0)
        parents = np.empty(k, dtype=np.intp)
        block = max(1, _BLOCK // max(table.shape))
        for start in range(0, k, block):
            scores = self.sigma * rng.standard_normal((min(block, k - start), table.shape[1]))
            near = _near(_softmax(scores) @ shifted.T, table.shape[1])  # (parents, candidates)
            for parent, own in enumerate(near):
                pool = np.flatnonzero(own)
                parents[start + parent] = pick(pool[_lightest(values[pool], scores[parent])], rng)
        return parents


def _finite(table: ErrorTable) -> Floats:
    return np.minimum(table.astype(np.float64), 1e300)


def _lightest(values: Floats, scores: Floats) -> Indices:
    """The rows of `values` (pool, cases) with the least sum, weighted by the softmax of `scores`; several if tied."""
    rows = np.arange(len(values))
    while len(rows) > 1:
        values = values - values.min(axis=0)
        telling = values.any(axis=0)
        if not telling.any():
            break
        # Only the weights' ratios matter: taken anew from the remaining cases, none underflows in vain.
        values, scores = values[:, telling], scores[telling]
        near = _near((values * _softmax(scores)).sum(axis=1), values.shape[1])
        if near.all():  # too close to separate
            break
        rows, values = rows[near], values[near]
    return rows


def _softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _near(sums: Floats, terms: int) -> Mask:
    """Which sums are the least up to rounding."""
    return np.asarray(sums <= sums.min(axis=-1, keepdims=True) * (1 + 4 * terms * np.finfo(np.float64).eps))
