"""The ways a run can end badly: bad input, a failure, an interruption."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = f"{Path(__file__).parent}{os.sep}"


class InputError(ValueError):
    """A bad value, found where it enters. The command prints the message and exits with code 2.

    Examples:
        >>> import gradlex
        >>> gradlex.Recipe(population=0)
        Traceback (most recent call last):
        gradlex.errors.InputError: population must be a whole number of at least 1, got 0.
    """


class RunError(RuntimeError):
    """A run that failed after it had started. The command prints the message and exits with code 1."""


class InterruptedRun(BaseException):
    """A run that a signal ended early; its last checkpoint stands.

    Examples:
        >>> import signal
        >>> from gradlex.errors import InterruptedRun
        >>> InterruptedRun(signal.SIGTERM, "stopped after generation 3").exit_code
        143
    """

    def __init__(self, signum: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry, with the nearest one that is."""
    names = sorted(allowed)
    hint = did_you_mean(given.lower(), names)
    return InputError(f"unknown {kind} {given!r:.80}.{hint} Known: {', '.join(names)}.")


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """The end of a message: the name nearest to the given one, if one is near."""
    names, given = list(names), given[:100]
    alike = [name for name in names if name[:1] == given[:1]]  # a slip is rarely in the first letter
    near = difflib.get_close_matches(given, alike, 1, 0.5) or difflib.get_close_matches(given, names, 1, 0.75)
    return f" Did you mean {near[0]!r}?" if near else ""


def warn(message: str) -> None:
    """A warning that points at the line outside gradlex that called it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
