"""An exception out of the user's model or data, told as what failed and where."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from gradlex.errors import RunError


@contextmanager
def told(what: str, *, bfloat16: bool = False) -> Iterator[None]:
    """Tell what failed, and where the exception came from: it may be the user's model or data.

    Autocast to bfloat16 is what some models cannot take, so it is named where it was on.
    """
    try:
        yield
    except RunError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        cure = ". It was computed in bfloat16; without: precision float32" if bfloat16 else ""
        raise RunError(
            f"{what} failed: {type(error).__name__}: {error} (in {frame.filename}, line {frame.lineno}){cure}"
        ) from error
