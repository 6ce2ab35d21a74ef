"""DEAP: `toolbox.register("select", gradlex.integrations.deap.select)`.

Fitness values are the cases, as for DEAP's own selLexicase; a case with a negative weight is minimized, one with a
positive weight maximized. Randomness comes from Python's `random`, as in DEAP, unless an rng is given.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gradlex.errors import InputError
from gradlex.selection import Cases, Choice, select_parents


def errors_of(individuals: Sequence[Any]) -> npt.NDArray[np.float64]:
    """The (individuals, cases) errors behind DEAP's fitness: lower is better."""
    if not individuals:
        raise InputError("there is no individual to select from.")
    if not all(each.fitness.valid for each in individuals):
        raise InputError("an individual has no fitness: evaluate it before selection.")
    directions = -np.sign(np.asarray(individuals[0].fitness.weights, dtype=np.float64))
    try:
        values = np.asarray([each.fitness.values for each in individuals], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"the individuals have fitness values of several lengths: {error}") from error
    return values * directions


def select(
    individuals: Sequence[Any],
    k: int,
    method: str | Callable[..., Choice] = "lexicase",
    *,
    rng: np.random.Generator | None = None,
    cases: Cases | None = None,
    **options: Any,
) -> list[Any]:
    """Choose `k` of DEAP's individuals by any method of gradlex; they are references, as DEAP's operators return.

    Register a `numpy.random.Generator` as `rng` for a stream of your own; a number would choose alike every time.

    Examples:
        >>> from deap import base, creator
        >>> from gradlex.integrations import deap as lexicase
        >>> creator.create("Errors", base.Fitness, weights=(-1.0, -1.0))  # two cases, both minimized
        >>> creator.create("Individual", list, fitness=creator.Errors)
        >>> population = [creator.Individual([number]) for number in range(3)]
        >>> for individual, errors in zip(population, [(0, 1), (1, 0), (1, 1)]):
        ...     individual.fitness.values = errors
        >>> toolbox = base.Toolbox()
        >>> toolbox.register("select", lexicase.select)
        >>> [2] in toolbox.select(population, k=20)  # the third is never the best on a case
        False
    """
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(
            f"rng must be a numpy.random.Generator, got {rng!r}: a seed would choose alike in every generation."
        )
    stream = np.random.default_rng(random.getrandbits(128)) if rng is None else rng
    chosen = select_parents(errors_of(individuals), k, method, stream, cases=cases, **options)
    return [individuals[place] for place in chosen]
