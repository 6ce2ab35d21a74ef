"""The console that commands print to."""

from __future__ import annotations

import io
import os
import shlex
import sys

from rich.console import Console


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for a table where there is none.

    Without markup: a path may have [brackets].
    """
    width = None if sys.stdout.isatty() else 140
    return _Console(highlight=False, markup=False, width=width)


class _Console(Console):
    """Goes on without a word where nobody reads any more (`| head`): that must not end a run."""

    def on_broken_pipe(self) -> None:
        """Rich would end the process."""
        self.quiet = True
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def open_streams() -> None:
    """Have an output and an error stream, also where they were closed, that print whatever a path may hold."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for the whole process
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # a notebook's are not
            stream.reconfigure(errors="backslashreplace")


def typed_command() -> str:
    """The command as it was typed, to be typed again."""
    return shlex.join(["gradlex", *sys.argv[1:]])
