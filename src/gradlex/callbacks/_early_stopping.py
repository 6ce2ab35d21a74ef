"""Early stopping, and which generation was the best: decided by the validation part alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradlex._checks import check
from gradlex._console import plural
from gradlex.callbacks._callback import Callback, LiveRun
from gradlex.callbacks._record import Record
from gradlex.errors import InputError
from gradlex.recipe import Count

if TYPE_CHECKING:
    from gradlex.tasks import Measure


class EarlyStopping(Callback):
    """Stops a run after `patience` generations without a better primary metric on the validation part.

    It remembers nothing but the records, so that a resumed run stops where it would have stopped.
    `Recipe(patience=...)` adds one.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> data = torch.randn(60, 4), torch.zeros(60, dtype=torch.long)  # one class: nothing to learn after the start
        >>> recipe = gradlex.Recipe(generations=50, batch_size=16, validation_fraction=0.2)
        >>> stopping = gradlex.callbacks.EarlyStopping(patience=2)
        >>> run = gradlex.train(torch.nn.Linear(4, 2), data, recipe, callbacks=[stopping])
        >>> len(run.generations) < 50
        True
    """

    def __init__(self, patience: int) -> None:
        check("patience", Count, patience)
        self.patience = patience

    @staticmethod
    def check(data: Mapping[str, Any]) -> None:
        """Refuse a run without a validation part, before anything is written."""
        if not data.get("validation_samples"):
            raise InputError(
                "early stopping looks at a validation part, and there is none: set validation_fraction, 0.1 for "
                "example, or give validation=."
            )

    def on_start(self, run: LiveRun) -> None:
        """Stop a run that was interrupted just when it should have stopped."""
        self._stop_if_due(run)

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """Stop where the last improvement was too long ago."""
        self._stop_if_due(run)

    def _stop_if_due(self, run: LiveRun) -> None:
        best = best_generation(run.records, run.measures[0])
        if best is not None and run.records[-1].generation - best >= self.patience:
            run.stop(
                f"no better validation {run.measures[0].name} for {plural(self.patience, 'generation')}, "
                f"the best was generation {best}"
            )


def best_generation(records: Sequence[Record], measure: Measure) -> int | None:
    """The generation with the best metric on the validation part, the first of equals; None where none has any.

    What is not finite is worse than any number.
    """
    sign = 1.0 if measure.higher_is_better else -1.0
    found = {
        record.generation: sign * record.validation[measure.name]
        for record in records
        if record.validation is not None
    }
    values = {generation: value if math.isfinite(value) else -math.inf for generation, value in found.items()}
    return max(values, key=values.__getitem__) if values else None
