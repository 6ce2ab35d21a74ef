"""The console that people read: nothing printed to it can drive the terminal, and losing its reader ends no run."""

from __future__ import annotations

import io
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

_WITHOUT_TERMINAL = 140  # columns in a file or a pipe: wide enough for a table
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # C0 and C1 but for tab and newline


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for a table where there is none.

    Without markup, since a path may have [brackets], and with control characters spelled out.
    """
    return _Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _WITHOUT_TERMINAL)


def print_error(text: str) -> None:
    """Print one message of the command to standard error."""
    print(f"gradlex: {printable(text)}", file=sys.stderr)  # noqa: T201  # the one place that does


def printable(text: str) -> str:
    r"""The text with its control characters spelled out (\x1b), so that a path cannot drive the terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def one_line(text: str) -> str:
    r"""The same with line breaks spelled out too (\n), so that a path cannot pretend to be another message."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def open_streams() -> None:
    """Make sure that standard output and error exist, even if they were closed, and can print any path."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for the whole process
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # a notebook's are not
            stream.reconfigure(errors="backslashreplace")


def plural(number: int, noun: str) -> str:
    """A number with its noun: 1 run, 2 runs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def metric_words(metrics: Mapping[str, float | None], measures: Iterable[Mapping[str, Any]]) -> str:
    """A task's metrics in its own order, fractions in per cent: accuracy 95.35%, loss 0.1834."""
    kinds = {str(measure["name"]): measure for measure in measures}
    ordered = [name for name in kinds if name in metrics] + [name for name in metrics if name not in kinds]
    return ", ".join(f"{name} {_number(metrics[name], kinds.get(name, {}))}" for name in ordered)


def _number(value: float | None, measure: Mapping[str, Any]) -> str:
    if value is None or not math.isfinite(value):  # null in a file
        return "not finite"
    return f"{value:.2%}" if measure.get("fraction") else f"{value:.4f}"


class _Console(Console):
    """Prints on without a word when nobody reads any more (`| head`): that must not end a run."""

    def on_broken_pipe(self) -> None:
        """Rich would end the process."""
        self.quiet = True
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())

    def render_str(self, text: str, **options: Any) -> Text:
        """Every string that is printed, alone or in a table, comes through here."""
        return super().render_str(printable(text), **options)
