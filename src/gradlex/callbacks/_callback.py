"""Callback: what watches a run. It is called on the leading process only, whatever computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gradlex.callbacks._record import Record
from gradlex.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from gradlex.population import Parent
    from gradlex.tasks import Measure


class LiveRun:
    """A run in progress, as callbacks see it.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> class Watch(gradlex.Callback):
        ...     def on_start(self, run: gradlex.callbacks.LiveRun):
        ...         print(run.recipe.population, run.device, run.path)
        ...     def on_generation(self, run, record):
        ...         print(record.generation, len(run.records), run.network().training)
        >>> data = torch.randn(60, 4), torch.arange(60) % 3
        >>> recipe = gradlex.Recipe(generations=2, batch_size=8)
        >>> run = gradlex.train(torch.nn.Linear(4, 3), data, recipe, callbacks=[Watch()], device="cpu")
        4 cpu None
        0 1 False
        1 2 False
    """

    def __init__(
        self,
        *,
        recipe: Recipe,
        data: Mapping[str, Any],
        measures: tuple[Measure, ...],
        path: Path | None,
        workers: int,
        device: str,
        parent: Parent,
        records: list[Record],
        network: Callable[[Parent], nn.Module],
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.recipe, self.data, self.measures = recipe, data, measures
        """The resolved recipe, what recipe.json says of the data, and the task's metrics, the primary one first."""
        self.path = path
        """The run folder; None where nothing is written."""
        self.workers, self.device = workers, device
        self.parent = parent
        """The parent of the next generation: weights, and all else that is inherited."""
        self.records = records
        """What happened so far, generation by generation. What a callback remembers it can derive from these when an
        interrupted run is resumed."""
        self.resumed = bool(records)
        """Whether this run continues an earlier one."""
        self.stopped: str | None = None
        """Why a callback has stopped the run."""
        self.ended: Literal["finished", "interrupted", "failed"] | None = None
        """How the run has ended; None while it is running."""
        self.result: dict[str, Any] = {}
        """What result.json holds, once the run is finished."""
        self.notice = notice
        """Tell whoever watches something, in a sentence: the command prints it, the library logs it."""
        self._network = network

    def stop(self, reason: str) -> None:
        """End the run after this generation, or before the first one when called in `on_start`.

        It counts as finished, and its result names the reason.
        """
        self.stopped = self.stopped or reason

    def network(self) -> nn.Module:
        """The current network: a copy of its own, in evaluation mode."""
        return self._network(self.parent)


class Callback:
    """Override what you need. An exception in a callback ends the run.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> class OnlyOne(gradlex.Callback):
        ...     def on_generation(self, run, record):
        ...         run.stop("one generation is enough")
        >>> data = torch.randn(60, 4), torch.arange(60) % 3
        >>> recipe = gradlex.Recipe(generations=50, batch_size=8)
        >>> run = gradlex.train(torch.nn.Linear(4, 3), data, recipe, callbacks=[OnlyOne()])
        >>> run.result["stopped"], len(run.generations)
        ('one generation is enough', 1)
    """

    def on_start(self, run: LiveRun) -> None:
        """Before the first generation, or before the one that a resumed run continues with.

        A callback that stops runs should look at `run.records` here: the run may have been interrupted just after it
        was stopped.
        """

    def on_generation(self, run: LiveRun, record: Record) -> None:
        """After every generation; `run.parent` is its outcome."""

    def on_end(self, run: LiveRun) -> None:
        """When the run has ended, however it did: finished, interrupted or failed (`run.ended`)."""
