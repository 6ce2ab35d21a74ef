"""GEPA: `gepa.optimize(..., candidate_selection_strategy=LexicaseCandidateSelector())`.

The next prompt to mutate is chosen by single validation examples in random order, from all candidates: none is pruned
before. GEPA's scores are higher-is-better; an example that a candidate was not evaluated on counts as its worst.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradlex.selection import Cases, Choice, select_parents


class LexicaseCandidateSelector:
    """GEPA's CandidateSelector by any method of gradlex; `rng` is its own stream over all iterations.

    Examples:
        >>> from types import SimpleNamespace
        >>> from gradlex.integrations.gepa import LexicaseCandidateSelector
        >>> scores = [{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}, {"a": 0.0, "b": 0.5}]  # three prompts
        >>> state = SimpleNamespace(prog_candidate_val_subscores=scores)  # GEPA hands its own state over
        >>> selector = LexicaseCandidateSelector(rng=0)
        >>> sorted({selector.select_candidate_idx(state) for _ in range(20)})
        [0, 1]
    """

    def __init__(
        self,
        method: str | Callable[..., Choice] = "lexicase",
        *,
        rng: np.random.Generator | int | None = 0,
        cases: Cases | None = None,
        **options: Any,
    ) -> None:
        self._method, self._options, self._stream = method, options, np.random.default_rng(rng)
        self._cases = replace(cases or Cases(), maximize=True)

    def select_candidate_idx(self, state: Any) -> int:
        """The candidate to mutate, by the validation scores in GEPA's state."""
        by_candidate = state.prog_candidate_val_subscores
        examples = list(dict.fromkeys(example for scores in by_candidate for example in scores))
        scores = np.array(
            [[own.get(example, np.nan) for example in examples] for own in by_candidate], dtype=float
        )
        chosen = select_parents(scores, 1, self._method, self._stream, cases=self._cases, **self._options)
        return int(chosen[0])
