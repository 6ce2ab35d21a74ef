"""Early stopping, and which generation was the best: decided by the validation part alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradlex.callbacks.record import Record

if TYPE_CHECKING:
    from gradlex.tasks import Measure


def out_of_patience(history: Sequence[Record], measure: Measure, patience: int) -> str | None:
    """Why to stop: the best generation is `patience` generations ago."""
    best = best_generation(history, measure)
    if best is None or history[-1].generation - best < patience:
        return None
    return f"no better validation {measure.name} since generation {best}"


def best_generation(history: Sequence[Record], measure: Measure) -> int | None:
    """The generation with the best metric on the validation part, the first of equals; None without any.

    A value that is not finite is worse than any number.
    """
    sign = 1.0 if measure.higher_is_better else -1.0
    found = {
        record.generation: sign * record.metrics["validation"][measure.name]
        for record in history
        if "validation" in record.metrics
    }
    return max(found, key=lambda g: found[g] if math.isfinite(found[g]) else -math.inf, default=None)
