"""Schedules: the learning rate over generations. It never changes within one.

A schedule gives a factor of the initial learning rate from the generation and their number; its options stand beside
it, as keyword-only parameters, and are given as `schedule_options`. One of your own, in the library or as
`module:function`, is a function of the generation alone, as torch's LambdaLR takes it. A tail takes over where a run
branches (`branch_at`): it gives the learning rate itself, from the schedule's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from annotated_types import Ge, Gt, Lt

from gradlex._checks import check, check_options
from gradlex._objects import load_object
from gradlex.errors import InputError, unknown_name

Rate: TypeAlias = Annotated[float, Gt(0)]
Share: TypeAlias = Annotated[float, Ge(0), Lt(1)]
Span: TypeAlias = Annotated[float, Ge(0)]
"""A number of generations, or, below 1, a share of them."""


def cosine(generation: int, generations: int | None, *, warmup: Span = 0, low: Share = 0.0) -> float:
    """From 1 to `low` along half a cosine (Loshchilov & Hutter 2017), after a linear warm-up.

    Examples:
        >>> from gradlex.schedules import cosine
        >>> [round(cosine(generation, 4), 3) for generation in range(4)]
        [1.0, 0.854, 0.5, 0.146]
        >>> [round(cosine(generation, 6, warmup=2), 3) for generation in range(6)]
        [0.333, 0.667, 1.0, 0.854, 0.5, 0.146]
    """
    begin, total = _after_warmup("cosine", warmup, generations)
    if generation < begin:
        return _warming(generation, begin)
    place = (generation - begin) / (total - begin)
    return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * place))


def linear_to_zero(generation: int, generations: int | None, *, warmup: Span = 0, low: Share = 0.0) -> float:
    """From 1 to `low` along a line, after a linear warm-up.

    Examples:
        >>> from gradlex.schedules import linear_to_zero
        >>> [linear_to_zero(generation, 4) for generation in range(4)]
        [1.0, 0.75, 0.5, 0.25]
    """
    begin, total = _after_warmup("linear", warmup, generations)
    if generation < begin:
        return _warming(generation, begin)
    return 1 - (1 - low) * (generation - begin) / (total - begin)


def step(
    generation: int,
    generations: int | None,
    *,
    at: Sequence[float] = (0.5, 0.75),
    factor: Rate = 0.1,
    warmup: Span = 0,
) -> float:
    """Multiplied by `factor` at each of these generations, after a linear warm-up (He et al. 2016).

    Examples:
        >>> from gradlex.schedules import step
        >>> [round(step(generation, 8, at=[0.5, 0.75]), 3) for generation in range(8)]
        [1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
    """
    if isinstance(at, str) or not isinstance(at, Sequence):
        raise InputError(
            f"at must be a list of generations or shares of them, such as [0.5, 0.75], got {at!r}."
        )
    for place in at:
        check("at", Span, place)
    begin = _counted("step", warmup, generations)
    if generation < begin:
        return _warming(generation, begin)
    return float(factor ** sum(generation >= _counted("step", place, generations) for place in at))


def one_cycle(
    generation: int,
    generations: int | None,
    *,
    warmup: Span = 0.3,
    start: Share = 0.04,
    end: Share = 4e-6,
) -> float:
    """From `start` up to 1, then down to `end`, along cosines (Smith & Topin 2018); the defaults are torch's.

    Examples:
        >>> from gradlex.schedules import one_cycle
        >>> [round(one_cycle(generation, 10), 2) for generation in range(10)]
        [0.04, 0.52, 1.0, 0.95, 0.81, 0.61, 0.39, 0.19, 0.05, 0.0]
    """
    if generations is None:
        raise _needs_generations("one-cycle")
    # As OneCycleLR counts its steps: the first generation is at the start, the last at the end.
    top, last = max((warmup if warmup >= 1 else warmup * generations) - 1, 0.0), generations - 1
    if top >= last:
        raise _too_long(warmup, generations)
    if generation <= top:
        one, other, place = start, 1.0, generation / top if top else 1.0
    else:
        one, other, place = 1.0, end, (generation - top) / (last - top)
    return other + (one - other) / 2 * (1 + math.cos(math.pi * place))


def constant(generation: int, generations: int | None, *, warmup: Span = 0) -> float:
    """Always 1, after a linear warm-up.

    Examples:
        >>> from gradlex.schedules import constant
        >>> [constant(generation, 5, warmup=3) for generation in range(5)]
        [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    begin = _counted("constant", warmup, generations)
    return _warming(generation, begin) if generation < begin else 1.0


SCHEDULES: Mapping[str, Callable[..., float]] = {
    "cosine": cosine,
    "linear": linear_to_zero,
    "step": step,
    "one-cycle": one_cycle,
    "constant": constant,
}


def check_schedule(schedule: str | Callable[..., float], options: Mapping[str, Any]) -> None:
    """Refuse a name that no schedule has, and options that it does not take.

    What `module:function` names is imported only to be called: a stored recipe must not run code when it is read.
    """
    if isinstance(schedule, str) and ":" in schedule:
        return
    if isinstance(schedule, str):
        check_options(f"schedule {schedule!r}", _named(schedule), options)
    elif options:
        check_options("the schedule", schedule, options)


def scheduled_factor(
    schedule: str | Callable[..., float],
    generation: int,
    generations: int | None,
    options: Mapping[str, Any],
) -> float:
    """What a schedule multiplies the initial learning rate of a generation by."""
    function = _named(schedule) if isinstance(schedule, str) else schedule
    places = (generation, generations) if isinstance(schedule, str) and ":" not in schedule else (generation,)
    try:
        factor = function(*places, **options)
    except InputError:
        raise
    except Exception as error:  # whatever a function of the user's own may raise
        raise InputError(
            f"the schedule {getattr(function, '__name__', function)} failed for generation {generation}: "
            f"{type(error).__name__}: {error}"
        ) from error
    check(f"the schedule's factor of generation {generation}", Annotated[float, Ge(0)], factor)
    return float(factor)


def needs_length(schedule: str | Callable[..., float], options: Mapping[str, Any]) -> bool:
    """Whether the factor of a generation depends on how many there are, or may do so."""
    return schedule != "constant" or 0 < options.get("warmup", 0) < 1


@functools.cache
def _named(schedule: str) -> Callable[..., float]:
    """The schedule of this name, or the function behind `module:function`."""
    if ":" in schedule:
        own: Callable[..., float] = load_object(schedule, "schedule")
        return own
    if schedule not in SCHEDULES:
        raise unknown_name("schedule", schedule, SCHEDULES)
    return SCHEDULES[schedule]


def _warming(generation: int, begin: int) -> float:
    return (generation + 1) / (begin + 1)


def _after_warmup(name: str, warmup: float, generations: int | None) -> tuple[int, int]:
    """Where the schedule itself begins, and where it ends."""
    if generations is None:
        raise _needs_generations(name)
    begin = _counted(name, warmup, generations)
    if begin >= generations:
        raise _too_long(warmup, generations)
    return begin, generations


def _counted(name: str, span: float, generations: int | None) -> int:
    """A number of generations, from that number or from a share of them."""
    if span == 0 or span >= 1:
        return round(span)
    if generations is None:
        raise _needs_generations(name)
    return round(span * generations)


def _needs_generations(name: str) -> InputError:
    return InputError(f"a {name} schedule needs the number of generations: set Recipe(generations=...).")


def _too_long(warmup: float, generations: int) -> InputError:
    return InputError(
        f"warmup {warmup:g} leaves nothing of the {generations} generations: give a shorter one."
    )


def continued(place: float, now: float, start: float, *, factor: Rate = 1.0) -> float:
    """The schedule continues, scaled by a factor.

    Examples:
        >>> import gradlex
        >>> recipe = gradlex.Recipe(generations=8, branch_at=0.5, tail="continue", tail_options={"factor": 2})
        >>> [round(recipe.lr_at(generation), 3) for generation in range(8)]
        [0.1, 0.096, 0.085, 0.069, 0.1, 0.062, 0.029, 0.008]
    """
    return factor * now


def held(place: float, now: float, start: float, *, lr: Rate | None = None, factor: Rate = 1.0) -> float:
    """One learning rate to the end (default: that of the branch) times a factor, as in SWA (Izmailov et al. 2018).

    Examples:
        >>> import gradlex
        >>> recipe = gradlex.Recipe(generations=8, branch_at=0.5, tail="constant")
        >>> [round(recipe.lr_at(generation), 3) for generation in range(8)]
        [0.1, 0.096, 0.085, 0.069, 0.05, 0.05, 0.05, 0.05]
    """
    return factor * (start if lr is None else lr)


def linear(
    place: float,
    now: float,
    start: float,
    *,
    lr: Rate | None = None,
    factor: Rate = 1.0,
    hold: Share = 0.5,
) -> float:
    """One learning rate for the share `hold` of the tail, then linearly to 0.

    Examples:
        >>> import gradlex
        >>> recipe = gradlex.Recipe(generations=8, branch_at=0.5, tail="linear", tail_options={"lr": 0.08})
        >>> [round(recipe.lr_at(generation), 3) for generation in range(8)]
        [0.1, 0.096, 0.085, 0.069, 0.08, 0.08, 0.08, 0.04]
    """
    top = held(place, now, start, lr=lr, factor=factor)
    return top if place < hold else top * (1 - place) / (1 - hold)


def cyclic(
    place: float,
    now: float,
    start: float,
    *,
    lr: Rate | None = None,
    factor: Rate = 1.0,
    low: Share = 0.1,
    cycles: Annotated[int, Ge(1)] = 4,
) -> float:
    """So many times linearly from `lr` to the share `low` of it, as in FGE and SWA (Izmailov et al. 2018).

    Examples:
        >>> import gradlex
        >>> recipe = gradlex.Recipe(generations=8, branch_at=0.5, tail="cyclic", tail_options={"lr": 0.1, "cycles": 2})
        >>> [round(recipe.lr_at(generation), 3) for generation in range(8)]
        [0.1, 0.096, 0.085, 0.069, 0.1, 0.055, 0.1, 0.055]
    """
    top = held(place, now, start, lr=lr, factor=factor)
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
