"""TPOT: a function with the signature of `tpot.selectors.lexicase_selection`, without its Python loop.

`TPOTEstimator(..., parent_selector=gradlex.integrations.tpot.lexicase_selection)`. Scores are higher-is-better. TPOT
itself is not imported.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from gradlex.selection import Cases, Indices, select_parents


def lexicase_selection(scores: npt.ArrayLike, k: int, n_parents: int = 1, rng: Any = None) -> Indices:
    """The (k, n_parents) indices of parents, each by its own order of the columns of (individuals, cases) scores.

    Examples:
        >>> from gradlex.integrations.tpot import lexicase_selection
        >>> scores = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]  # (individuals, cases), higher is better
        >>> pairs = lexicase_selection(scores, k=10, n_parents=2, rng=0)
        >>> pairs.shape, sorted(set(pairs.ravel().tolist()))
        ((10, 2), [0, 1])
    """
    chosen = select_parents(scores, k * n_parents, "lexicase", rng, cases=Cases(maximize=True))
    return chosen.reshape(k, n_parents)
