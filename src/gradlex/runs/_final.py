"""What a run shows and returns of its parents: the last one recalibrated if asked for, the average as a network."""

from __future__ import annotations

import copy
from dataclasses import replace

from torch import nn

from gradlex.engine import Worker, recalibrated
from gradlex.population import Parent, State, install


def shown_parent(worker: Worker, parent: Parent) -> Parent:
    """The parent as it is evaluated and returned: at the end of the run recalibrated, if that was asked for.

    A checkpoint keeps the parent itself, from which a longer run would go on.
    """
    count, generation = worker.recipe.recalibrate_final, parent.generation
    if count == 0 or generation != worker.recipe.generations:
        return parent
    state, ema = (
        None if given is None else recalibrated(worker, given, count, generation, index=1)
        for given in (parent.state, parent.ema)
    )
    assert state is not None
    return replace(parent, state=state, ema=ema)


def with_state(model: nn.Module, state: State) -> nn.Module:
    """A network like this one with another state."""
    twin = copy.deepcopy(model)
    install(twin, state)
    return twin
