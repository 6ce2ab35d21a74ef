"""From words to a command: a dataclass whose fields are the flags, in the groups a person would look for.

A command's fields carry a type, a default and a sentence below; a field that is itself a dataclass (a Recipe) gives all
of its fields. tyro parses and formats the help; the command is made, and checked, after it.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import io
import json
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from gradlex._console import printable
from gradlex.errors import InputError, unknown_name
from gradlex.presets import PRESETS, find_preset

Keywords = Mapping[str, Any]


class Command(Protocol):
    """What a subcommand is: a dataclass that is called once its flags are read."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]]
    """Titles in the help, and the flags below each; flags that are in none come first."""
    examples: ClassVar[str]
    """What the help ends with."""

    def __call__(self) -> None:
        """Run it."""


C = TypeVar("C", bound=Command)
T = TypeVar("T")

registry = ConstructorRegistry()
_PRESET = {name for preset in PRESETS.values() for name in preset.fields}
"""What a preset may turn on, so that a flag must be able to turn it off."""


def parse(command: type[C], prog: str, words: Sequence[str]) -> C:
    """The command with the given flags; wrong ones are explained, and end the process with exit code 2.

    A flag `preset` names what takes the place of the defaults of flags that are not given.
    """
    values = _parsed(command, prog, words, {})
    if values.get("preset") is not None:
        values = _parsed(command, prog, words, find_preset(values["preset"]).fields)
    return _made(command, values)


def _parsed(command: type[C], prog: str, words: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every flag; `defaults` go before the command's own."""
    names, flags = {leaf.flag for leaf in _leaves(command)}, flags_of(command, defaults)
    try:
        with _spelled_out(words):
            parsed: Any = tyro.cli(
                flags,
                prog=prog,
                description=inspect.cleandoc(command.__doc__ or ""),
                args=list(words),
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.HelptextFromCommentsOff),
                registry=registry,
            )
    except SystemExit as ended:
        if not ended.code and command.examples:
            print(f"examples:\n{textwrap.indent(inspect.cleandoc(command.examples), '  ')}\n")
        raise
    values: dict[str, Any] = {}
    for part in (parsed, *(getattr(parsed, _attribute(title)) for title in command.groups)):
        values |= {name: value for name, value in vars(part).items() if name in names}
    return values


def flags_of(command: type[C], defaults: Mapping[str, Any] | None = None) -> type:
    """A dataclass of the command's flags in their groups, as tyro takes it."""
    leaves = {
        leaf.flag: dataclasses.replace(leaf, default=(defaults or {}).get(leaf.flag, leaf.default))
        for leaf in _leaves(command)
    }
    grouped = [name for names in command.groups.values() for name in names]
    fields = [leaf.field() for name, leaf in leaves.items() if name not in grouped]
    for title, names in command.groups.items():
        group = dataclasses.make_dataclass(title, [leaves[name].field() for name in names], kw_only=True)
        group.__doc__ = None
        titled = Annotated[group, tyro.conf.arg(name=title)]  # type: ignore[valid-type]  # made just above
        fields.append((_attribute(title), titled, dataclasses.field(default_factory=group)))
    return dataclasses.make_dataclass(command.__name__, fields, kw_only=True)


def _attribute(title: str) -> str:
    """Where a group's flags are, under a name that no flag has."""
    return f"{title.lower()}_group"


@contextlib.contextmanager
def _spelled_out(words: Sequence[str]) -> Iterator[None]:
    """Have no control character of the words reach the terminal when tyro repeats them."""
    if all(printable(word) == word for word in words):
        yield
        return
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    finally:
        sys.stderr.write(printable(said.getvalue()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Leaf:
    """One flag."""

    flag: str
    annotation: Any
    default: Any
    sentence: str

    def field(self) -> tuple[str, Any, Any]:
        """As `make_dataclass` takes it."""
        described = tyro.conf.arg(help=self.described, help_behavior_hint="")
        annotation: Any = Annotated[_readable(self.annotation), described]
        if self.flag not in _PRESET:  # one flag is enough: --compile, but no --no-compile
            annotation = Annotated[annotation, tyro.conf.FlagCreatePairsOff]
        if isinstance(self.default, Mapping):  # which dataclasses hold to be mutable
            return self.flag, annotation, dataclasses.field(default_factory=lambda: dict(self.default))
        return self.flag, annotation, dataclasses.field(default=self.default)

    @property
    def described(self) -> str:
        """The sentence with the default, unless it says itself what happens without the flag."""
        said = "(default" in self.sentence or self.default is None or self.default is False
        if said or self.default is dataclasses.MISSING or self.default in ((), {}):
            return self.sentence
        if self.sentence.endswith(".") and ". " not in self.sentence:
            return f"{self.sentence[:-1]} (default: {self.default})."
        return f"{self.sentence} (default: {self.default})"


def _leaves(owner: type) -> Iterator[_Leaf]:
    hints, sentences = get_type_hints(owner, include_extras=True), _sentences(owner)
    for each in dataclasses.fields(owner):
        if dataclasses.is_dataclass(hints[each.name]):
            yield from _leaves(hints[each.name])
            continue
        default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        yield _Leaf(
            flag=each.metadata.get("flag", each.name),
            annotation=hints[each.name],
            default=default,
            sentence=sentences.get(each.name, ""),
        )


def _made(owner: Callable[..., T], values: Mapping[str, Any]) -> T:
    """The dataclass with these values, its parts made first: what they refuse is said in their own words."""
    parts, hints = {}, get_type_hints(owner)
    for each in dataclasses.fields(owner):  # type: ignore[arg-type]  # every command and part is a dataclass
        kind: Any = hints[each.name]
        is_part = dataclasses.is_dataclass(kind)
        parts[each.name] = _made(kind, values) if is_part else values[each.metadata.get("flag", each.name)]
    return owner(**parts)


@functools.cache
def _sentences(owner: type) -> dict[str, str]:
    """The sentence below each field, in one line."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
        ):
            found[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split("\n\n")[0].split())
    return found


def _readable(annotation: Any) -> Any:
    """The annotation without its bounds, which the command checks itself, and without functions, which no flag is."""
    if get_origin(annotation) is Annotated:
        kind, *extras = get_args(annotation)
        markers = [extra for extra in extras if type(extra).__module__.startswith("tyro.")]
        return functools.reduce(lambda inner, marker: Annotated[inner, marker], markers, _readable(kind))
    if get_origin(annotation) in (Union, types.UnionType):
        arms = [_readable(arm) for arm in get_args(annotation) if get_origin(arm) is not Callable]
        return functools.reduce(lambda one, other: one | other, arms)
    return annotation


_READERS = {int: ("INT", int), float: ("FLOAT", float), str: ("TEXT", str), Path: ("PATH", Path)}


@registry.primitive_rule
def _value(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """int, float, str, Path or a Literal, or one of them or None; unknown words get a suggestion."""
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
def _keywords(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Keywords] | None:
    """KEY=VALUE pairs, the values as JSON where they are JSON: nesterov=true dampening=0.1."""
    if info.type != Keywords:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="KEY=VALUE ...",
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
    except (ValueError, RecursionError):
        return key, value
