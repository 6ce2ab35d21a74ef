"""The order that cases come in where some matter more than others or come first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradlex.selection.protocol import Floats, Indices


@dataclass(frozen=True, kw_only=True, eq=False)
class CaseOrder:
    """How soon each case comes: in proportion to its weight among the remaining cases, lower levels first."""

    weights: Floats | None
    """(cases,), above 0, at most 1; None where all are alike."""
    levels: Indices | None
    """(cases,): the lowest come first; None where all are alike."""

    def keys(self, count: int, cases: int, rng: np.random.Generator) -> Floats:
        """(count, cases) keys whose ascending order is a random order of the cases.

        The first of several exponential times with the weights as rates is each in proportion to its weight, and so is
        the first of the remaining ones (Efraimidis & Spirakis 2006); mapped to [0, 1) they sort within their level.
        """
        times = rng.exponential(size=(count, cases))
        if self.weights is not None:
            times /= self.weights
        return times if self.levels is None else np.asarray(self.levels - np.exp(-times))
