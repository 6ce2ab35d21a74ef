"""Early stopping, and which generation was the best: decided by the validation part alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradlex._checks import Count, check
from gradlex.callbacks.callback import Callback, LiveRun
from gradlex.callbacks.record import Record
from gradlex.errors import InputError

if TYPE_CHECKING:
    from gradlex.tasks import Measure


class EarlyStopping(Callback):
    """Ends a run after `patience` generations without a better primary metric on the validation part.

    It looks only at the history, so a resumed run stops at the same generation. `Recipe(patience=...)` adds one.
    """

    def __init__(self, patience: int) -> None:
        self.patience: int = check("patience", Count, patience)

    def on_start(self, run: LiveRun) -> None:
        """Raise an error if there is no validation part."""
        if not run.data["samples"].get("validation"):
            raise InputError(
                "early stopping looks at the validation part, and there is none: set validation_fraction, such as "
                "0.1, or give validation=."
            )

    def on_generation(self, record: Record, run: LiveRun) -> str | None:
        """Stop if the best generation is too long ago."""
        primary = run.task.measures[0]
        best = best_generation(run.history, primary)
        if best is None or record.generation - best < self.patience:
            return None
        return f"no better validation {primary.name} since generation {best}"


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
