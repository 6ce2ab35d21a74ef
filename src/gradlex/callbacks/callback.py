"""Callback: watches a run and may end it. Only the leading process calls it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gradlex.callbacks.record import Record
from gradlex.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from gradlex.tasks import Task


class LiveRun(Protocol):
    """A run in progress, as callbacks see it."""

    recipe: Recipe
    """With every open field filled in."""
    data: dict[str, Any]
    """The data as run.json describes it: name, samples of each part, class names."""
    environment: dict[str, Any]
    """The device, the number of threads and processes, and versions, as in run.json."""
    task: Task
    """`task.measures` starts with the primary metric."""
    history: list[Record]
    """The generations so far, also those before a resumed run was interrupted."""
    path: Path | None
    """The run folder; None if nothing is written."""

    @property
    def model(self) -> nn.Module:
        """After a generation it holds the new parent. Leave it as it is."""


class Callback:
    """Override what you need. An exception in a callback ends the run.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> class GoodEnough(gradlex.Callback):
        ...     def on_generation(self, record, run):
        ...         return record.losses[record.chosen] < 5
        >>> data = torch.randn(60, 4), torch.arange(60) % 3
        >>> recipe = gradlex.Recipe(epochs=50, batch_size=8)
        >>> run = gradlex.train(torch.nn.Linear(4, 3), data, recipe, callbacks=[GoodEnough()])
        >>> len(run.history)
        1
    """

    def on_start(self, run: LiveRun) -> None:
        """Before the first generation, or before the one that a resumed run continues with."""

    def on_generation(self, record: Record, run: LiveRun) -> bool | str | None:
        """After every generation. True ends the run as finished; a text does so too and is kept as the reason."""

    def on_end(self, run: LiveRun) -> None:
        """After the last generation, also if the run failed or was interrupted."""
