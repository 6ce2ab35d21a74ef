"""gradlex completion"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import tyro

from gradlex.cli._arguments import flags_of, registry


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Print a completion script for your shell."""

    shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional]
    """The shell: bash or zsh."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = "gradlex completion bash > ~/.local/share/bash-completion/completions/gradlex"

    def __call__(self) -> None:
        """Print it; tyro ends the process with exit code 0."""
        from gradlex.cli import COMMANDS, find_command

        commands = {name: find_command(name) for name in COMMANDS}
        kinds = [
            Annotated[
                flags_of(command),
                tyro.conf.subcommand(name, description=inspect.cleandoc(command.__doc__).splitlines()[0]),
            ]
            for name, command in commands.items()
        ]
        union: Any = functools.reduce(lambda one, other: one | other, kinds)
        tyro.cli(
            union,
            prog="gradlex",
            args=["--tyro-print-completion", self.shell],
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
            registry=registry,
        )
