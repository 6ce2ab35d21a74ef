"""The console that commands print to."""

from __future__ import annotations

import sys

from rich.console import Console


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for a table where there is none."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=140)
