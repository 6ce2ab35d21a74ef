"""pymoo: `GA(selection=LexicaseSelection())`, or any algorithm that takes a Selection.

The cases are the objectives F, or another value that the problem's `out` holds for each individual, such as the errors
on single samples (`of="errors"`): then the algorithm minimizes few objectives while parents are chosen by many cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pymoo.core.selection import Selection

from gradlex.errors import InputError
from gradlex.selection import Choice, select_parents
from gradlex.selection import Selection as Strategy
from gradlex.selection.protocol import Indices


class LexicaseSelection(Selection):  # type: ignore[misc]  # pymoo has no types
    """Chooses parents by any method of gradlex; infeasible individuals only if all are.

    Args:
        method: `"lexicase"`, `"epsilon-lexicase(epsilon=0.1)"`, an object of `gradlex.selection`, or a function.
        of: The value of each individual that holds its errors; lower is better.

    Examples:
        >>> import numpy as np
        >>> from pymoo.core.population import Population
        >>> from gradlex.integrations.pymoo import LexicaseSelection
        >>> pop = Population.new(F=np.array([[0, 1], [1, 0], [1, 1]]))  # the third is never the best
        >>> pairs = LexicaseSelection().do(None, pop, n_select=10, n_parents=2, to_pop=False)
        >>> pairs.shape, 2 in pairs
        ((10, 2), False)
    """

    def __init__(
        self,
        method: str | Strategy | Callable[..., Choice] = "lexicase",
        *,
        of: str = "F",
    ) -> None:
        super().__init__()
        self.method, self.of = method, of

    def _do(
        self, problem: Any, pop: Any, n_select: int, n_parents: int, random_state: Any = None, **kwargs: Any
    ) -> Indices:
        found = pop.get(self.of)
        if any(row is None for row in found):
            raise InputError(
                f"the individuals have no value {self.of!r}: set out[{self.of!r}] in the problem's _evaluate."
            )
        feasible = np.flatnonzero(np.ravel(pop.get("feas")).astype(bool))
        pool = feasible if len(feasible) else np.arange(len(pop))
        errors = np.stack([np.atleast_1d(row) for row in found])[pool]
        chosen = select_parents(errors, n_select * n_parents, self.method, random_state)
        return pool[chosen].reshape(n_select, n_parents)
