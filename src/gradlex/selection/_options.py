"""The options of all methods: what values each may have. A name means the same in every method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from gradlex.errors import InputError


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and _finite(value)


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


_MOST_SIGMA = 1e300
"""Draws times more than that would overflow."""

ALLOWED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "on_all_fail": (
        lambda value: value in ("random", "survive"),
        "'random' (one of the remaining is picked) or 'survive' (they all stay, classic lexicase)",
    ),
    "tournament_size": (
        lambda value: value is None or _whole(value),
        "a whole number of entrants, 1 or more, or None for the whole population",
    ),
    "epsilon": (
        lambda value: value is None or (_number(value) and value >= 0),
        "a finite number, 0 or more, or None for the median absolute deviation",
    ),
    "epsilon_mode": (
        lambda value: value in ("static", "semi-dynamic", "dynamic"),
        "'static', 'semi-dynamic' or 'dynamic'",
    ),
    "case_batch": (_whole, "a whole number of cases a batch, 1 (lexicase) or more"),
    "share": (
        lambda value: _number(value) and 0 < value <= 1,
        "a share of the cases, above 0 and at most 1 (every case)",
    ),
    "refresh": (_whole, "a whole number of generations, 1 (every generation) or more"),
    "sigma": (
        lambda value: _number(value) and 0 <= value <= _MOST_SIGMA,
        f"a number from 0 (the mean error decides) to {_MOST_SIGMA:g}; 200 is nearly lexicase",
    ),
    "alpha": (
        lambda value: _number(value) and value >= 0,
        "a finite number, 0 (uniform) or more; 1 leaves the probabilities as they are",
    ),
}


def check_options(method: str, takes: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse an option that the method does not take, or a value that the option may not have."""
    for option, value in given.items():
        if option not in takes:
            others = f"it takes {', '.join(takes)}" if takes else "it takes none"
            raise InputError(f"{option!r} is not an option of {method!r}: {others}. Leave it out.")
        fits, allowed = ALLOWED[option]
        if not (isinstance(value, (str, Real)) or value is None) or not fits(value):
            raise InputError(f"{option} is {allowed}; got {value!r}. Give such a value or leave it out.")
