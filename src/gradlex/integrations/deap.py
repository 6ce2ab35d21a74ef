"""DEAP: `toolbox.register("select", gradlex.integrations.deap.select)`.

Fitness values are the cases, as in DEAP's own selLexicase: a case with a negative weight is minimized, one with a
positive weight is maximized.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradlex.errors import InputError
from gradlex.selection import Choice, Selection, select_parents


def select(
    individuals: Sequence[Any],
    k: int,
    method: str | Selection | Callable[..., Choice] = "lexicase",
    *,
    rng: np.random.Generator | None = None,
) -> list[Any]:
    """Choose `k` of DEAP's individuals; they are references, as with DEAP's own operators.

    Args:
        individuals: Evaluated individuals.
        k: The number of parents.
        method: `"lexicase"`, `"epsilon-lexicase(epsilon=0.1)"`, an object of `gradlex.selection`, or a function.
        rng: A random stream of its own (default: seeded by Python's `random`, as everything in DEAP).

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
    if not individuals:
        raise InputError("there are no individuals to select from.")
    if not all(individual.fitness.valid for individual in individuals):
        raise InputError("an individual has no fitness: evaluate all of them before selection.")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, got {rng!r}: a seed gives the same draws every time.")
    values = np.array([individual.fitness.values for individual in individuals], dtype=np.float64)
    errors = values * -np.sign(individuals[0].fitness.weights)
    own = np.random.default_rng(random.getrandbits(128)) if rng is None else rng
    return [individuals[place] for place in select_parents(errors, k, method, own)]
