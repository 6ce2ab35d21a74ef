"""From a generation's candidates to the next parent, on one process or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gradlex.engine._recalibration import recalibrated
from gradlex.engine._team import Team
from gradlex.engine._worker import Candidate, Worker
from gradlex.errors import RunError
from gradlex.population import Parent, averaged, move_to_mean, moving_average, outer_step, pieces
from gradlex.recipe import Recipe
from gradlex.selection import Choice


def promoted(
    choice: Choice, own: Mapping[int, Candidate], parent: Parent, worker: Worker, team: Team
) -> Parent:
    """The parent that `choice` makes of the candidates, of which `own` are here; it takes over the memory of one."""
    recipe = worker.recipe
    chosen = team.hand_over(choice.index, own)
    _average(chosen, choice, own, team)
    outer = outer_step(
        parent.state,
        chosen.state,
        parent.outer,
        worker.trainable,
        lr=recipe.outer_lr,
        momentum=recipe.outer_momentum,
        nesterov=recipe.outer_nesterov,
    )
    state = chosen.state
    if recipe.has_outer_step:
        _refuse_overflow(
            [*(state[name] for name in worker.trainable), *(outer or {}).values()], parent, recipe
        )
    if recipe.recalibrate:
        # Every process computes the statistics; those of one are taken, since another machine's last bits may differ.
        found = recalibrated(worker, state, recipe.recalibrate, parent.generation)
        state = {
            name: tensor if tensor is state[name] else team.spread(choice.index, tensor, tensor)
            for name, tensor in found.items()
        }
    return Parent(
        generation=parent.generation + 1,
        state=state,
        optimizer=chosen.optimizer,
        memory=choice.memory,
        outer=outer,
        ema=None if recipe.ema is None else moving_average(parent.ema, state, recipe.ema),
    )


def _refuse_overflow(moved: Sequence[Tensor], parent: Parent, recipe: Recipe) -> None:
    """Stop before a parent that no candidate can start from is saved: only an outer step can make one."""
    if not torch.stack([torch.isfinite(tensor).all() for tensor in moved]).all():
        raise RunError(
            f"the outer step after generation {parent.generation} gave the parent a weight that is not finite, at "
            f"outer_lr {recipe.outer_lr:g} and outer_momentum {recipe.outer_momentum:g}: train with smaller ones, or "
            "with a smaller lr."
        )


def _average(chosen: Candidate, choice: Choice, own: Mapping[int, Candidate], team: Team) -> None:
    """Make `chosen` the weighted mean, in place.

    The others' tensors come piece by piece and in the order of their indices, from whoever has them, and are let
    go at once: beside its own candidates, a process holds the winner and a piece.
    """
    weights = {index: weight for index, weight in sorted(choice.shares.items()) if index != choice.index}
    if not weights:
        return
    others = {i: averaged(own[i].state, own[i].optimizer) for i in weights if i in own}
    for place, tensor in averaged(chosen.state, chosen.optimizer).items():
        # A parameter that a candidate never used has no optimizer state there: it follows the others.
        mine = {i: pieces(tensors.get(place, tensor), tensor) for i, tensors in others.items()}
        for number, piece in enumerate(pieces(tensor, tensor)):
            parts = {i: mine[i][number] if i in mine else None for i in weights}
            move_to_mean(piece, ((weights[i], team.spread(i, part, piece)) for i, part in parts.items()))
