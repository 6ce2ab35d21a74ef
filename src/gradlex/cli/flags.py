"""From words to a command: its fields become tyro's flags, in groups, and the short help shows the first ones."""

from __future__ import annotations

import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, make_dataclass
from itertools import zip_longest
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeAlias, Union, get_args, get_origin, get_type_hints

import tyro
from pydantic import BaseModel, ConfigDict

from gradlex.errors import InputError, unknown_name
from gradlex.recipe import Recipe

COMMANDS = ("train", "resume", "evaluate", "predict", "compare", "paper", "report", "list")
"""Each is the class of this name in the module NAME_command."""

Group: TypeAlias = tuple[str, ...]


RARE: Group = (
    *("train_size", "test_fraction", "image_size", "task", "init_from", "momentum", "precision", "momentum_state"),
    *("branch_at", "tail", "tail_mean", "recalibrate", "log", "compile", "deterministic", "title"),
)
"""The flags that only --help-all shows."""


class Command(BaseModel):
    """A command: its docstring is its help, its fields are its flags, and calling it runs it."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, arbitrary_types_allowed=True)

    groups: ClassVar[Mapping[str, Group]] = {}
    """Titles and flags, also of a recipe; flags in no group come first."""
    examples: ClassVar[str]
    recipe: Mapping[str, Any] = {}
    """The fields of a recipe that were given."""
    words: Group = ()
    """The command as it was typed."""

    def __call__(self) -> None:
        """Run it."""
        raise NotImplementedError


def parse(words: Sequence[str]) -> Command:
    """The command that these words give; help and wrong flags end the process."""
    if not words or words[0] not in COMMANDS:
        return _overview(words)
    kind, flags = _find(words[0]), list(words[1:])
    _give_hints(flags)
    everything = "--help-all" in flags
    helps = everything or "-h" in flags or "--help" in flags
    type_ = _type_of(kind, everything=everything or not helps)
    try:
        found: Any = tyro.cli(type_, prog=f"gradlex {words[0]}", args=["--help"] if helps else flags, config=_CONFIG)
    except SystemExit:
        if helps:
            rest = "" if everything or not kind.groups else f"gradlex {words[0]} --help-all shows every flag.\n\n"
            print(f"{rest}examples:\n{textwrap.indent(inspect.cleandoc(kind.examples), '  ')}")
        raise
    return _made(kind, found, words)


def _overview(words: Sequence[str]) -> Command:
    """The help of all commands, shell completion, or an error for a word that is no command."""
    if words and not words[0].startswith("-"):
        raise unknown_name("command", words[0], COMMANDS)
    kinds: dict[str, Callable[..., Any]] = {name: _type_of(_find(name), everything=True) for name in COMMANDS}
    for kind in kinds.values():
        kind.__doc__ = (kind.__doc__ or "").partition("\n")[0]
    tyro.extras.subcommand_cli_from_dict(
        kinds,
        prog="gradlex",
        description="Train neural networks by gradient lexicase selection. Start with: gradlex train",
        args=list(words) or ["--help"],
        config=_CONFIG,
    )
    raise InputError("name a command: gradlex --help lists them.")


def _find(name: str) -> type[Command]:
    module = importlib.import_module(f"gradlex.cli.{name}_command")
    return getattr(module, name.capitalize())  # type: ignore[no-any-return]


def _type_of(kind: type[Command], *, everything: bool) -> type:
    """The command as a dataclass of groups, as tyro takes it."""
    own = [name for name in kind.model_fields if name not in ("recipe", "words")]
    grouped = {name for names in kind.groups.values() for name in names}
    fields = [_flag(kind, name) for name in own if name not in grouped]
    for title, names in kind.groups.items():
        shown = [name for name in names if everything or name not in RARE]
        if shown:
            members = [_flag(kind if name in own else Recipe, name) for name in shown]
            group: Any = make_dataclass(title, members, kw_only=True)
            group.__doc__ = None
            annotation = Annotated[group, tyro.conf.arg(name=title)]
            fields.append((f"{title}_group", annotation, field(default_factory=group)))
    made = make_dataclass(kind.__name__, fields, kw_only=True)
    made.__doc__ = inspect.cleandoc(kind.__doc__ or "")
    return made


def _flag(owner: type[BaseModel], name: str) -> tuple[str, Any, Any]:
    """A field as `make_dataclass` takes it, with its default in its help."""
    info = owner.model_fields[name]
    default = None if owner is Recipe else info.get_default()
    said = " ".join((info.description or "").split())
    usual = info.get_default()
    known = info.is_required() or usual is None or usual is False or usual in ("", ())
    if not known and "(default" not in said:
        said = f"{said.removesuffix('.')} (default: {f'{usual:g}' if isinstance(usual, float) else usual})."
    annotation = get_type_hints(owner, include_extras=True)[name]
    described: Any = Annotated[_readable(annotation, default), tyro.conf.arg(help=said, help_behavior_hint="")]
    return name, described, field() if info.is_required() else field(default=default)


def _readable(annotation: Any, default: Any) -> Any:
    """The annotation without bounds, which the recipe checks, and without functions, which no flag can be."""
    if get_origin(annotation) is Annotated:
        kind, *extras = get_args(annotation)
        markers = [extra for extra in extras if type(extra).__module__.startswith("tyro.")]
        return functools.reduce(lambda inner, marker: Annotated[inner, marker], markers, _readable(kind, default))
    if get_origin(annotation) in (Union, UnionType):
        arms = [arm for each in get_args(annotation) if get_origin(arm := _readable(each, 0)) is not Callable]
        annotation = functools.reduce(lambda one, other: one | other, arms)
    return annotation | None if default is None else annotation


def _made(kind: type[Command], found: Any, words: Sequence[str]) -> Command:
    """The command, with the fields of a recipe apart."""
    parts = [found, *(getattr(found, f"{title}_group") for title in kind.groups)]
    values = {name: value for part in parts for name, value in vars(part).items() if not name.endswith("_group")}
    own = {name: value for name, value in values.items() if name in kind.model_fields}
    recipe = {name: value for name, value in values.items() if name not in own and value is not None}
    return kind.model_construct(**own, recipe=recipe, words=tuple(words))


_CONFIG = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.OmitSubcommandPrefixes,
    tyro.conf.HelptextFromCommentsOff,
    tyro.conf.FlagCreatePairsOff,
    tyro.conf.DisallowNone,
)

_OTHER_WORDS = {
    "--generations": "--epochs: a generation is one pass over the data",
    "--learning-rate": "--lr",
    "--data": "--dataset",
    "--threads": "the environment variable OMP_NUM_THREADS",
    "--selection-options": "--selection 'NAME(OPTION=VALUE)', such as 'epsilon-lexicase(epsilon=0.1)'",
}


def _give_hints(flags: Sequence[str]) -> None:
    """Raise an error for flags that other programs have, with ours."""
    for flag, following in zip_longest(flags, flags[1:], fillvalue=""):
        name, _, value = flag.replace("_", "-").partition("=")
        if name in _OTHER_WORDS:
            raise InputError(f"there is no {name}: use {_OTHER_WORDS[name]}.")
        if name in ("--seeds", "--methods", "--pairs") and "," in (value or following):
            raise InputError(f"{name} takes values separated by spaces, got {value or following!r}.")
        if name == "--momentum" and (value or following) in ("reset", "inherit"):
            state = value or following
            raise InputError(f"--momentum is a number, such as 0.9, got {state!r}: use --momentum-state {state}.")
