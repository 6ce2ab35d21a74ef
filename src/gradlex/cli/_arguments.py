"""How flags are read: None is not shown as a type, a wrong word is told its nearest neighbour, KEY=VALUE."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from gradlex.errors import InputError, unknown_name
from gradlex.recipe import Recipe

registry = ConstructorRegistry()


@dataclass(frozen=True, kw_only=True)
class Flags(Recipe):
    """The recipe's fields as flags, not checked yet: tyro would put its own words around our messages."""

    def __post_init__(self) -> None:
        """Leave the checks to `recipe`."""

    def recipe(self) -> Recipe:
        """The recipe, checked."""
        return Recipe(**vars(self))


_READERS = {int: ("INT", int), float: ("FLOAT", float), str: ("TEXT", str), Path: ("PATH", Path)}


@registry.primitive_rule
def _value(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """int, float, str, Path or a Literal, or one of them or None."""
    arms = [info.type]
    if get_origin(info.type) in (Union, types.UnionType):
        arms = [arm for arm in get_args(info.type) if arm is not type(None)]
    words = tuple(word for arm in arms if get_origin(arm) is Literal for word in get_args(arm))
    plain = [arm for arm in arms if get_origin(arm) is not Literal]
    if len(plain) > 1 or any(arm not in _READERS for arm in plain):
        return None
    name, read = _READERS[plain[0]] if plain else ("", None)

    def instance(given: list[str]) -> Any:
        word = given[0]
        if word in words:
            return word
        if word == "None" and type(None) in get_args(info.type):
            return None
        if read is None:
            raise unknown_name("value", word, words)
        try:
            return read(word)
        except ValueError:
            raise InputError(f"expected {name}, got {word!r}.") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="|".join([*words, *([name] if name else [])]),
        instance_from_str=instance,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


@registry.primitive_rule
def _keywords(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Mapping[str, Any]] | None:
    """KEY=VALUE pairs, the values as JSON where they are JSON: nesterov=true dampening=0.1."""
    if info.type != Mapping[str, Any]:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="[KEY=VALUE ...]",
        instance_from_str=lambda words: dict(_pair(word) for word in words),
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda value: [f"{key}={json.dumps(v)}" for key, v in value.items()],
    )


def _pair(word: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise InputError(f"an option is written KEY=VALUE, got {word!r}.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
