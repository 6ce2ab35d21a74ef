"""Schedules: the learning rate over generations. It never changes within one.

A schedule by name gives a factor of the initial learning rate from the generation and their number; one of your own, in
the library or as `module:function`, is a function of the generation alone, as torch's LambdaLR takes it. A tail takes
over where a run branches (`branch_at`): it gives the learning rate itself, from the schedule's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Annotated, TypeAlias

from annotated_types import Ge, Gt, Lt

from gradlex._objects import load_object
from gradlex.errors import InputError, unknown_name

Rate: TypeAlias = Annotated[float, Gt(0)]
Share: TypeAlias = Annotated[float, Ge(0), Lt(1)]


def cosine(generation: int, generations: int | None) -> float:
    """From 1 to 0 along half a cosine (Loshchilov & Hutter 2017)."""
    if generations is None:
        raise InputError("a cosine schedule needs the number of generations: set Recipe(generations=...).")
    return 0.5 * (1 + math.cos(math.pi * generation / generations))


def constant(generation: int, generations: int | None) -> float:
    """Always 1."""
    return 1.0


SCHEDULES: Mapping[str, Callable[[int, int | None], float]] = {"cosine": cosine, "constant": constant}


@functools.cache
def find_schedule(name: str) -> Callable[[int, int | None], float]:
    """The schedule of this name, or the function behind `module:function`."""
    if ":" in name:
        own = load_object(name, "schedule")
        return lambda generation, generations: own(generation)
    if name not in SCHEDULES:
        raise unknown_name("schedule", name, SCHEDULES)
    return SCHEDULES[name]


def continued(place: float, now: float, start: float, *, factor: Rate = 1.0) -> float:
    """The schedule continues, scaled by a factor."""
    return factor * now


def held(place: float, now: float, start: float, *, lr: Rate | None = None) -> float:
    """One learning rate to the end (default: that of the branch), as in SWA (Izmailov et al. 2018)."""
    return start if lr is None else lr


def linear(place: float, now: float, start: float, *, lr: Rate | None = None, hold: Share = 0.5) -> float:
    """One learning rate for the share `hold` of the tail, then linearly to 0."""
    top = held(place, now, start, lr=lr)
    return top if place < hold else top * (1 - place) / (1 - hold)


def cyclic(
    place: float,
    now: float,
    start: float,
    *,
    lr: Rate | None = None,
    low: Share = 0.1,
    cycles: Annotated[int, Ge(1)] = 4,
) -> float:
    """So many times linearly from `lr` to the share `low` of it, as in FGE and SWA (Izmailov et al. 2018)."""
    top = held(place, now, start, lr=lr)
    # Rounded: where a cycle begins, 0.29 x 100 is not quite 29.
    return top * (1 - (1 - low) * (round(place * cycles, 9) % 1))


Tail: TypeAlias = Callable[..., float]
"""`tail(place, now, start, *, options)`: the place in the tail, from 0 to 1, the schedule's own learning rate there,
and that of the branch."""

TAILS: Mapping[str, Tail] = {"continue": continued, "constant": held, "linear": linear, "cyclic": cyclic}


def find_tail(name: str) -> Tail:
    """The tail of this name."""
    if name not in TAILS:
        raise unknown_name("tail", name, TAILS)
    return TAILS[name]
