"""Schedules: the learning rate over generations. It is constant within one.

A schedule is a function `(generation, epochs) -> factor` of the initial learning rate; its options are keyword-only. A
tail takes over where a run branches (`branch_at`) and gives the learning rate itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from gradlex._checks import NonNegative, Positive, check
from gradlex._text import bind, parse
from gradlex.errors import InputError

Schedule: TypeAlias = Callable[[int, int], float]
"""`schedule(generation, epochs)`, with generations counted from 0."""

Tail: TypeAlias = Callable[[float], float]
"""`tail(start)`: the learning rate, from the schedule's learning rate at the branch."""


def cosine(generation: int, epochs: int, *, warmup: float = 0) -> float:
    """From 1 to 0 along half a cosine (Loshchilov & Hutter 2017), after a linear warm-up.

    `warmup` is a number of generations or, below 1, a share of them.

    Examples:
        >>> from gradlex.schedules import cosine
        >>> [round(cosine(generation, 4), 3) for generation in range(4)]
        [1.0, 0.854, 0.5, 0.146]
        >>> [round(cosine(generation, 6, warmup=2), 3) for generation in range(6)]
        [0.333, 0.667, 1.0, 0.854, 0.5, 0.146]
    """
    begin = _warmed_up(warmup, epochs)
    if generation < begin:
        return (generation + 1) / (begin + 1)
    return 0.5 * (1 + math.cos(math.pi * (generation - begin) / (epochs - begin)))


def linear(generation: int, epochs: int, *, warmup: float = 0) -> float:
    """From 1 to 0 along a line, after a linear warm-up.

    Examples:
        >>> from gradlex.schedules import linear
        >>> [linear(generation, 4) for generation in range(4)]
        [1.0, 0.75, 0.5, 0.25]
    """
    begin = _warmed_up(warmup, epochs)
    if generation < begin:
        return (generation + 1) / (begin + 1)
    return 1 - (generation - begin) / (epochs - begin)


def constant(generation: int, epochs: int, *, warmup: float = 0) -> float:
    """Always 1, after a linear warm-up.

    Examples:
        >>> from gradlex.schedules import constant
        >>> [constant(generation, 5, warmup=3) for generation in range(5)]
        [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    begin = _warmed_up(warmup, epochs)
    return (generation + 1) / (begin + 1) if generation < begin else 1.0


SCHEDULES: Mapping[str, Callable[..., float]] = {"cosine": cosine, "linear": linear, "constant": constant}


@functools.lru_cache
def find_schedule(given: str) -> Schedule:
    """The schedule of a text such as `cosine(warmup=5)` or `module:function`."""
    schedule: Schedule = bind("schedule", given, SCHEDULES)
    if ":" not in parse(given)[0]:
        schedule(10**6, 10**6 + 1)  # checks the values of its options
    return schedule


def _warmed_up(warmup: float, epochs: int) -> int:
    """The generation where the schedule itself begins."""
    given = float(check("warmup", NonNegative, warmup))
    begin = round(given * epochs if given < 1 else given)
    if begin >= epochs:
        raise InputError(f"warmup {given:g} leaves nothing of the {epochs} epochs: give a shorter one.")
    return begin


def constant_tail(start: float, *, lr: float | None = None, factor: float = 1.0) -> float:
    """One learning rate to the end (default: the schedule's at the branch) times a factor, as in SWA.

    Examples:
        >>> import gradlex
        >>> recipe = gradlex.Recipe(epochs=8, branch_at=0.5, tail="constant(factor=2)")
        >>> [round(recipe.lr_at(generation), 3) for generation in range(8)]
        [0.1, 0.096, 0.085, 0.069, 0.1, 0.1, 0.1, 0.1]
    """
    top = start if lr is None else check("lr", Positive, lr)
    return float(check("factor", Positive, factor) * top)


@functools.lru_cache
def find_tail(given: str) -> Tail:
    """The tail of a text such as `constant(factor=7)`."""
    tail: Tail = bind("tail", given, {"constant": constant_tail})
    tail(1.0)  # checks the values of its options
    return tail
