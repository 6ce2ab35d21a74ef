"""The console that commands print to."""

from __future__ import annotations

import shlex
import sys

from rich.console import Console


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for a table where there is none.

    Without markup: a path may have [brackets].
    """
    width = None if sys.stdout.isatty() else 140
    return Console(highlight=False, markup=False, width=width)


def typed_command() -> str:
    """The command as it was typed, to be typed again."""
    return shlex.join(["gradlex", *sys.argv[1:]])
