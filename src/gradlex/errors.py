"""The two ways a run can end badly: the input was refused, or the run itself failed."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """A value was refused where it entered. The command prints it and exits with code 2.

    Examples:
        >>> import gradlex
        >>> try:
        ...     gradlex.Recipe(population=0)
        ... except gradlex.InputError as error:
        ...     print(error)
        population must be a whole number of at least 1 or None, got 0.
    """


class MissingDataError(InputError):
    """Data is not on this machine, and was not to be downloaded.

    Examples:
        >>> from pathlib import Path
        >>> import gradlex
        >>> from gradlex.errors import MissingDataError
        >>> try:
        ...     gradlex.data.load(gradlex.Recipe(dataset="cifar10"), Path("nowhere"), download=False)
        ... except MissingDataError as error:
        ...     print(error)
        cifar10 is not in nowhere.
    """


class BusyError(InputError):
    """Another process is at work in a run folder."""


class RunError(RuntimeError):
    """A run failed after it had started. The command prints it and exits with code 1.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> data = torch.randn(32, 4), torch.arange(32) % 2
        >>> try:
        ...     gradlex.train(torch.nn.Linear(4, 2), data, gradlex.Recipe(lr=1e38, generations=2, batch_size=4))
        ... except gradlex.RunError as error:
        ...     print(str(error).partition(" (")[0])
        every candidate of generation 0 diverged
    """


class InterruptedRun(BaseException):
    """A run that ended early on a signal; its checkpoint is written. Exit code 130 or 143.

    Examples:
        >>> import signal
        >>> from gradlex.errors import InterruptedRun
        >>> try:
        ...     raise InterruptedRun(signal.SIGTERM, "stopped after generation 3")
        ... except InterruptedRun as error:
        ...     print(error, error.exit_code)
        stopped after generation 3 143
    """

    def __init__(self, signum: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry, with the nearest one that is."""
    names = sorted(allowed)
    return InputError(
        f"unknown {kind} {given!r}.{did_you_mean(given.lower(), names)} Known: {', '.join(names)}."
    )


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """The end of a message: the name nearest to the given one, where one is near."""
    near = difflib.get_close_matches(given[:100], list(names), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


@contextmanager
def failing_as(what: str, *, cure: str = "") -> Iterator[None]:
    """Turn an exception inside, perhaps the user's model's or data's, into a RunError that says what failed where."""
    try:
        yield
    except RunError:
        raise
    except InputError as error:  # it says itself what is wrong
        raise RunError(f"{what} failed: {error}") from error
    except Exception as error:
        raise RunError(f"{_failure(what, error)}{cure}") from error


@contextmanager
def refusing_as(what: str) -> Iterator[None]:
    """Turn an exception of a user's code, tried out before a run, into an InputError that says what failed where."""
    try:
        yield
    except InputError:
        raise
    except RunError as error:  # it says itself what failed
        raise InputError(str(error)) from error
    except Exception as error:
        raise InputError(_failure(what, error)) from error


def _failure(what: str, error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{what} failed: {type(error).__name__}: {error} (in {frame.filename}, line {frame.lineno})"
