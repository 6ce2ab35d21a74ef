"""pymoo: `GA(selection=LexicaseSelection())`, or any algorithm that takes a Selection.

The objectives F are the cases, or another value that the problem's `out` sets for each individual, such as the errors
of single samples (`of="errors"`): then the algorithm minimizes few objectives while parents are chosen by many cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pymoo.core.selection import Selection

from gradlex.errors import InputError
from gradlex.selection import Cases, Choice, Indices, select_parents


class LexicaseSelection(Selection):  # type: ignore[misc]  # pymoo has no types
    """Parents by any method of gradlex; who violates a constraint is chosen only if everyone does.

    Args:
        method: A name of `gradlex.selection.SELECTIONS`, or a strategy.
        of: The value of each individual that holds its errors, lower is better.
        cases: What the cases are: groups, weights, maximize, ...
        options: Of the method.

    Examples:
        >>> import numpy as np
        >>> from pymoo.algorithms.soo.nonconvex.ga import GA
        >>> from pymoo.core.problem import Problem
        >>> from pymoo.optimize import minimize
        >>> from gradlex.integrations.pymoo import LexicaseSelection
        >>> class Fit(Problem):  # minimize the mean of four errors, select parents by each of them
        ...     def __init__(self):
        ...         super().__init__(n_var=4, n_obj=1, xl=-1, xu=1)
        ...     def _evaluate(self, x, out, *args, **kwargs):
        ...         out["errors"] = np.abs(x - 0.5)
        ...         out["F"] = out["errors"].mean(axis=1)
        >>> found = minimize(Fit(), GA(pop_size=10, selection=LexicaseSelection(of="errors")), ("n_gen", 3), seed=1)
        >>> found.X.shape
        (4,)
    """

    def __init__(
        self,
        method: str | Callable[..., Choice] = "lexicase",
        *,
        of: str = "F",
        cases: Cases | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.method, self.of, self.cases, self.options = method, of, cases, options

    def _do(
        self,
        problem: Any,
        pop: Any,
        n_select: int,
        n_parents: int = 1,
        random_state: Any = None,
        **kwargs: Any,
    ) -> Indices:
        """The (n_select, n_parents) indices of the parents."""
        found = pop.get(self.of)
        if any(row is None for row in found):
            raise InputError(
                f"pymoo's individuals have no {self.of!r}: set out[{self.of!r}] in the problem's _evaluate."
            )
        feasible = np.flatnonzero(np.asarray(pop.get("feas"), dtype=bool).ravel())
        place = feasible if len(feasible) else np.arange(len(pop))
        errors = np.asarray([np.atleast_1d(row) for row in found])[place]
        chosen = select_parents(
            errors, n_select * n_parents, self.method, random_state, cases=self.cases, **self.options
        )
        return place[chosen].reshape(n_select, n_parents)
