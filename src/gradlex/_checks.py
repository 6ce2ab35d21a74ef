"""Checks of single values, with errors that say what was given and what is allowed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from gradlex.errors import InputError


def whole(name: str, value: Any, *, least: int) -> None:
    """Refuse what is no whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, below: float = math.inf
) -> None:
    """Refuse what is no finite number within the limits."""
    fits = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max  # not isfinite, which a huge int overflows
        and value >= least
        and above < value < below
    )
    if not fits:
        limits = [
            text
            for limit, text in (
                (least, f"at least {least:g}"),
                (above, f"above {above:g}"),
                (below, f"below {below:g}"),
            )
            if math.isfinite(limit)
        ]
        raise InputError(f"{name} must be a finite number {' and '.join(limits)}, got {value!r}.")


def plain(options: Mapping[str, Any]) -> bool:
    """Whether JSON can hold these options, and so a stored recipe."""
    try:
        json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
