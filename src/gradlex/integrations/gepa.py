"""GEPA: `gepa.optimize(..., candidate_selection_strategy=LexicaseCandidateSelector())`.

The next prompt to mutate is chosen by single validation examples in random order, among all candidates. An example that
a candidate was not evaluated on counts as its worst.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradlex.selection import Choice, Selection, select_parents


class LexicaseCandidateSelector:
    """Chooses GEPA's next candidate by any method of gradlex.

    Args:
        method: `"lexicase"`, `"epsilon-lexicase(epsilon=0.1)"`, an object of `gradlex.selection`, or a function.
        rng: The random stream of all iterations, or its seed.

    Examples:
        >>> from types import SimpleNamespace
        >>> from gradlex.integrations.gepa import LexicaseCandidateSelector
        >>> scores = [{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}, {"a": 0.0, "b": 0.5}]  # three prompts
        >>> state = SimpleNamespace(prog_candidate_val_subscores=scores)  # GEPA passes its own state
        >>> selector = LexicaseCandidateSelector(rng=0)
        >>> sorted({selector.select_candidate_idx(state) for _ in range(20)})
        [0, 1]
    """

    def __init__(
        self,
        method: str | Selection | Callable[..., Choice] = "lexicase",
        *,
        rng: np.random.Generator | int | None = 0,
    ) -> None:
        self._method, self._rng = method, np.random.default_rng(rng)

    def select_candidate_idx(self, state: Any) -> int:
        """The number of the candidate to mutate, by the validation scores in GEPA's state."""
        by_candidate = state.prog_candidate_val_subscores
        examples = list(dict.fromkeys(example for scores in by_candidate for example in scores))
        scores = np.array([[own.get(each, np.nan) for each in examples] for own in by_candidate], dtype=np.float64)
        errors = np.nanmax(scores) - scores  # GEPA maximizes
        return int(select_parents(errors, 1, self._method, self._rng)[0])
