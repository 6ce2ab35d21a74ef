"""One check of one value against its annotation, with an error that says what was given and what is allowed.

A recipe's fields, an execution's and a selection's options all state what they allow where they are declared:

    share: Annotated[float, Gt(0), Le(1)] = 0.1
    epsilon_mode: Literal["static", "semi-dynamic", "dynamic"] = "semi-dynamic"
    population: Annotated[int, Ge(1)] | None = None
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import types
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from gradlex.errors import InputError, did_you_mean

_BOUNDS: dict[type, tuple[str, Callable[[Any, Any], bool]]] = {
    Ge: ("ge", lambda value, bound: value >= bound),
    Gt: ("gt", lambda value, bound: value > bound),
    Le: ("le", lambda value, bound: value <= bound),
    Lt: ("lt", lambda value, bound: value < bound),
}
_WORDS = {Ge: "of at least", Gt: "above", Le: "at most", Lt: "below"}


def check(name: str, annotation: Any, value: Any) -> None:
    """Refuse a value that its annotation does not allow; kinds of annotation that are not known allow everything."""
    arms = _arms(annotation)
    if not any(_fits(arm, value) for arm in arms):
        words = [word for arm in arms if get_origin(arm) is Literal for word in get_args(arm)]
        hint = did_you_mean(value, [str(word) for word in words]) if isinstance(value, str) else ""
        raise InputError(f"{name} must be {_either(arms)}, got {_shown(value)}.{hint}")


def check_fields(instance: Any) -> None:
    """Check every field of a dataclass against its annotation."""
    for name, annotation in _hints(type(instance)).items():  # type: ignore[arg-type]  # a class is hashable
        check(name, annotation, getattr(instance, name))


def keyword_options(function: Callable[..., Any]) -> dict[str, Any]:
    """A function's own options with their defaults: its keyword-only parameters that do not begin with `_`.

    A function that is no option's owner says so by a leading underscore; an option without a default must be given
    (its default is `inspect.Parameter.empty`).
    """
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and not name.startswith("_")
    }


def check_options(owner: str, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse options that a function does not take, lacks, or may not have."""
    takes = keyword_options(function)
    hints = _hints(function)
    for option, value in given.items():
        if option not in takes:
            allowed = f"it takes {', '.join(takes)}" if takes else "it takes none"
            raise InputError(
                f"{owner} has no option {option!r}: {allowed}.{did_you_mean(str(option), takes)}"
            )
        check(option, hints.get(option, Any), value)
    missing = [name for name, default in takes.items() if default is inspect.Parameter.empty]
    for name in missing:
        if name not in given:
            raise InputError(f"{owner} needs the option {name!r}: give {name}=VALUE.")


def is_plain(options: Mapping[str, Any]) -> bool:
    """Whether JSON can hold these options, and so a stored recipe."""
    try:
        json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


@functools.cache
def _hints(owner: Any) -> dict[str, Any]:
    return get_type_hints(owner, include_extras=True)


def _arms(annotation: Any) -> list[Any]:
    """The alternatives of a union; an Annotated union's bounds hold for each of them."""
    if get_origin(annotation) is Annotated:
        inner, *extras = get_args(annotation)
        if get_origin(inner) in (Union, types.UnionType):
            bounded = functools.partial(functools.reduce, lambda kind, extra: Annotated[kind, extra], extras)
            return [arm if arm is type(None) else bounded(arm) for arm in _arms(inner)]
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType):
        return [each for arm in get_args(annotation) for each in _arms(arm)]
    return [annotation]


def _fits(arm: Any, value: Any) -> bool:
    kind, bounds = _parts(arm)
    if not _is_a(kind, value):
        return False
    return all(fits(value, limit) for _, limit, fits in bounds)


def _is_a(kind: Any, value: Any) -> bool:  # noqa: PLR0911  # one line a kind of annotation
    if kind is type(None):
        return value is None
    if get_origin(kind) is Literal:
        return any(value == word and type(value) is type(word) for word in get_args(kind))
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and _finite(value)
    if kind is str:
        return isinstance(value, str) and value != ""
    if get_origin(kind) is Mapping or kind is Mapping:
        return isinstance(value, Mapping) and is_plain(value)
    if get_origin(kind) is Callable:
        return callable(value)
    return True


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def _parts(arm: Any) -> tuple[Any, list[tuple[str, Any, Callable[[Any, Any], bool]]]]:
    """The type of one alternative, and its bounds: word, limit, comparison."""
    if get_origin(arm) is not Annotated:
        return arm, []
    kind, *extras = get_args(arm)
    bounds = []
    for extra in extras:
        if type(extra) in _BOUNDS:
            attribute, fits = _BOUNDS[type(extra)]
            bounds.append((_WORDS[type(extra)], getattr(extra, attribute), fits))
    return kind, bounds


def _either(arms: list[Any]) -> str:
    """The alternatives in words: 'a', 'b' or None."""
    *others, last = [text for arm in arms for text in _allowed(arm)]
    return f"{', '.join(others)} or {last}" if others else last


def _allowed(arm: Any) -> list[str]:
    kind, bounds = _parts(arm)
    limits = " and ".join(f"{word} {_number(limit)}" for word, limit, _ in bounds)
    if get_origin(kind) is Literal:
        return [repr(word) for word in get_args(kind)]
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "True or False",
        type(None): "None",
    }
    plain = "a mapping of plain values" if get_origin(kind) is Mapping or kind is Mapping else "a function"
    return [f"{names.get(kind, plain)}{f' {limits}' if limits else ''}"]


def _number(limit: Any) -> str:
    return f"{limit:g}" if isinstance(limit, float) and math.isfinite(limit) else str(limit)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
