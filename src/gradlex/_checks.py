"""Check values against annotations, with our wording: what was given, and what is allowed."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from gradlex.errors import InputError, did_you_mean

# The text in an annotation says what is allowed.
Count: TypeAlias = Annotated[int, Field(ge=1), "a whole number of at least 1"]
Natural: TypeAlias = Annotated[int, Field(ge=0), "a whole number of at least 0"]
Positive: TypeAlias = Annotated[float, Field(gt=0), "a number above 0"]
NonNegative: TypeAlias = Annotated[float, Field(ge=0), "a number of at least 0"]
Fraction: TypeAlias = Annotated[float, Field(gt=0, lt=1), "a number above 0 and below 1"]
Share: TypeAlias = Annotated[float, Field(ge=0, lt=1), "a number of at least 0 and below 1"]

T = TypeVar("T")

_CONFIG = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "True or False"}


def check(name: str, annotation: Any, value: Any) -> Any:
    """The value, with NumPy's numbers as Python's; InputError if its annotation doesn't allow it."""
    try:
        return _adapter(annotation).validate_python(plain(value))
    except ValidationError as error:
        raise bad_value(name, annotation, value) from error


def check_fields(instance: Any) -> None:
    """Check every field of a frozen dataclass against its annotation."""
    for name, annotation in _annotations(instance.__class__).items():
        if name in vars(instance):
            object.__setattr__(instance, name, check(name, annotation, getattr(instance, name)))


def parsed(kind: type[T], given: str | Mapping[str, Any], where: object) -> T:
    """Stored values, or their JSON, as what they must be; InputError if they are damaged."""
    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_json(given) if isinstance(given, str) else adapter.validate_python(given)
    except ValidationError as error:
        place = error.errors()[0]
        name = ".".join(map(str, place["loc"]))
        raise InputError(
            f"{where} is damaged: {name + ': ' if name else ''}{place['msg']}. Restore the file."
        ) from error


def bad_value(name: str, annotation: Any, value: Any) -> InputError:
    """The error for a value that the annotation of its field doesn't allow."""
    *others, last = _allowed(annotation)
    words = [word for word in (*others, last) if word.startswith("'")]
    hint = did_you_mean(value, [word.strip("'") for word in words]) if isinstance(value, str) else ""
    wanted = f"{', '.join(others)} or {last}" if others else last
    return InputError(f"{name} must be {wanted}, got {value!r:.80}.{hint}")


def plain(value: Any) -> Any:
    """NumPy's scalars as Python's."""
    return value.item() if isinstance(value, np.generic) else value


@functools.cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=_CONFIG)


@functools.cache
def _annotations(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _allowed(annotation: Any) -> list[str]:
    """The alternatives of an annotation in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return [word for word in inner[1:] if isinstance(word, str)] or _allowed(inner[0])
    if origin in (Union, types.UnionType):
        return [word for arm in inner if arm is not type(None) for word in _allowed(arm)]
    if origin is Literal:
        return [repr(word) for word in inner]
    return [_WORDS.get(annotation, "a function")]
