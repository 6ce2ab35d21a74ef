"""How a mixture is chosen: weights of the checkpoints, from their errors on the validation part.

Methods are given the (checkpoints, cases) errors and a function that evaluates a mixture on the same cases; they never
see the test part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gradlex.selection import Cases, ErrorTable, selection_probabilities

Shares: TypeAlias = npt.NDArray[np.float64]
"""(checkpoints,), at least 0, summing to 1."""
Evaluate: TypeAlias = Callable[[Shares], npt.NDArray[np.float64]]
"""The (cases,) errors of the mixture with these shares."""
Method: TypeAlias = Callable[[ErrorTable, Evaluate, "Cases | None"], Shares]


def best(errors: ErrorTable, evaluate: Evaluate, cases: Cases | None = None) -> Shares:
    """The checkpoint with the least mean error."""
    return _alike(len(errors), [int(errors.mean(axis=1).argmin())])


def uniform(errors: ErrorTable, evaluate: Evaluate, cases: Cases | None = None) -> Shares:
    """Every checkpoint alike (Wortsman et al. 2022)."""
    return _alike(len(errors), range(len(errors)))


def greedy(errors: ErrorTable, evaluate: Evaluate, cases: Cases | None = None) -> Shares:
    """The greedy soup (Wortsman et al. 2022, recipe 1).

    Checkpoints by decreasing validation accuracy; each joins if the mean with it is at least as good on the validation
    part as the mean without.
    """
    order = np.argsort(errors.mean(axis=1), kind="stable")
    chosen, lowest = [int(order[0])], float(errors[order[0]].mean())
    for candidate in order[1:].tolist():
        mean = float(evaluate(_alike(len(errors), [*chosen, candidate])).mean())
        if mean <= lowest:
            chosen, lowest = [*chosen, candidate], mean
    return _alike(len(errors), chosen)


def lexicase(errors: ErrorTable, evaluate: Evaluate, cases: Cases | None = None) -> Shares:
    """The checkpoint that lexicase selection is most likely to choose, by its exact chances."""
    return _alike(len(errors), [int(_chances(errors, cases).argmax())])


def expected(errors: ErrorTable, evaluate: Evaluate, cases: Cases | None = None) -> Shares:
    """Every checkpoint by its exact chance to win lexicase selection."""
    return _chances(errors, cases)


def by_cases(errors: ErrorTable, evaluate: Evaluate, cases: Cases | None = None) -> Shares:
    """Greedy by cases: next comes the checkpoint that solves most of what the mixture does not.

    It joins if the mean with it is at least as good, as in the greedy soup; only the order is another. With graded
    errors it is the one that improves most on the mixture, summed over the cases where it does. Groups are cases if
    they are given.
    """

    def seen(table: npt.ArrayLike) -> ErrorTable:
        return np.atleast_2d(np.asarray(table)) if cases is None else cases.table(np.atleast_2d(table))[0]

    chosen = [int(errors.mean(axis=1).argmin())]
    mixture = np.asarray(errors[chosen[0]], dtype=np.float64)
    left = [number for number in range(len(errors)) if number != chosen[0]]
    while left:
        gains = np.maximum(seen(mixture) - seen(errors[left]), 0).sum(axis=1)
        if gains.max() <= 0:
            break
        candidate = left.pop(int(gains.argmax()))
        found = evaluate(_alike(len(errors), [*chosen, candidate]))
        if found.mean() <= mixture.mean():
            chosen, mixture = [*chosen, candidate], found
    return _alike(len(errors), chosen)


METHODS: Mapping[str, Method] = {
    "best": best,
    "uniform": uniform,
    "greedy": greedy,
    "lexicase": lexicase,
    "expected": expected,
    "cases": by_cases,
}


def _chances(errors: ErrorTable, cases: Cases | None) -> Shares:
    return selection_probabilities(errors, method="lexicase", cases=cases, on_all_fail="survive")


def _alike(count: int, chosen: Iterable[int]) -> Shares:
    """The same share for each of the chosen."""
    shares = np.zeros(count)
    shares[list(chosen)] = 1
    return np.asarray(shares / shares.sum())
