"""TPOT: a function with the signature of `tpot.selectors.lexicase_selection`, without its Python loop.

`TPOTEstimator(..., parent_selector=gradlex.integrations.tpot.lexicase_selection)`. Scores are higher-is-better. TPOT
itself is not imported.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from gradlex.selection import Cases, Indices, select_parents


def lexicase_selection(scores: npt.ArrayLike, k: int, n_parents: int = 1, rng: Any = None) -> Indices:
    """The (k, n_parents) indices of parents, each by its own order of the columns of (individuals, cases) scores."""
    chosen = select_parents(scores, k * n_parents, "lexicase", rng, cases=Cases(maximize=True))
    return chosen.reshape(k, n_parents)
