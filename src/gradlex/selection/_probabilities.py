"""The exact chance of every candidate to be chosen, without drawing a single order."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from gradlex.errors import InputError
from gradlex.selection._pools import Probabilities
from gradlex.selection._protocol import ErrorTable
from gradlex.selection._registry import SELECTIONS, find
from gradlex.selection._table import checked, only_zero_and_one


def selection_probabilities(
    errors: npt.ArrayLike, *, method: str = "lexicase", **options: Any
) -> Probabilities:
    """The chance of each candidate of a (candidates, cases) table to be chosen by a method.

    Options have the defaults of training: `on_all_fail` is "random" on a table of 0/1 errors; with graded
    errors the classic rule holds. The time grows with the pools that can be reached: up to 2^candidates in
    the worst case, few in a network's population or with continuous errors.
    """
    table = checked(errors)
    info = find(method, options)
    bound = {**info.options, **options}
    if "on_all_fail" in bound:
        if "on_all_fail" in options:
            check_all_fail(table, bound["on_all_fail"])
        else:
            bound["on_all_fail"] = "random" if only_zero_and_one(table) else "survive"
    chances = info.probabilities(table, **bound) if info.probabilities else None
    if chances is None:
        known = ", ".join(name for name, other in SELECTIONS.items() if other.exact)
        how = " with the pool's own deviation (epsilon_mode='dynamic')" if info.exact else ""
        raise InputError(
            f"{method!r}{how} has no exact or closed form of its probabilities. Methods that have: {known}. "
            "Draw many with `select_parents` instead."
        )
    return chances


def check_all_fail(table: ErrorTable, on_all_fail: str) -> None:
    """Refuse the paper's all-fail rule on graded errors, where it has no meaning."""
    if on_all_fail == "random" and not only_zero_and_one(table):
        raise InputError(
            "on_all_fail='random' needs a table of 0 (solved) and 1 (failed) errors; this one has others. "
            "Use 'survive', the classic rule, for graded errors."
        )
