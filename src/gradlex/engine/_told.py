"""An exception out of the user's model or data, told as what failed and where."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from gradlex.errors import RunError


@contextmanager
def told(what: str) -> Iterator[None]:
    """Tell what failed, and where the exception came from: it may be the user's model or data."""
    try:
        yield
    except RunError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise RunError(
            f"{what} failed: {type(error).__name__}: {error} (in {frame.filename}, line {frame.lineno})"
        ) from error
