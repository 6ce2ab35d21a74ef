"""PyGAD: `pygad.GA(..., parent_selection_type=gradlex.integrations.pygad.parent_selection())`.

A fitness function that returns a list has one case a number; PyGAD's fitness is higher-is-better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gradlex.selection import Cases, Choice, Indices, select_parents

Parents = tuple[npt.NDArray[Any], Indices]


def parent_selection(
    method: str | Callable[..., Choice] = "lexicase",
    *,
    rng: np.random.Generator | int | None = None,
    cases: Cases | None = None,
    **options: Any,
) -> Callable[[Any, int, Any], Parents]:
    """A function that PyGAD takes as `parent_selection_type`; `rng` is its own stream over all generations.

    Examples:
        >>> import numpy as np
        >>> import pygad
        >>> from gradlex.integrations.pygad import parent_selection
        >>> def fitness(ga, solution, index):
        ...     return (-np.abs(solution - 0.5)).tolist()  # a case for each gene, higher is better
        >>> ga = pygad.GA(
        ...     num_generations=2, num_parents_mating=2, sol_per_pop=6, num_genes=3, fitness_func=fitness,
        ...     parent_selection_type=parent_selection(rng=0), random_seed=0, suppress_warnings=True,
        ... )
        >>> ga.run()
        >>> ga.generations_completed
        2
    """
    stream = np.random.default_rng(rng)
    given = replace(cases or Cases(), maximize=True)

    def select(fitness: Any, num_parents: int, ga_instance: Any) -> Parents:
        scores = np.asarray(fitness, dtype=np.float64).reshape(len(fitness), -1)
        chosen = select_parents(scores, int(num_parents), method, stream, cases=given, **options)
        return ga_instance.population[chosen].copy(), chosen

    return select
