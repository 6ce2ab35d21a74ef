"""From trained candidates to the parent: a weighted mean, the outer step, the moving average over generations.

Everything is computed in float64, element by element, and stored in the tensor's own type, so that neither the
number of threads nor that of processes can change a bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from gradlex.population._parent import OptimizerState, State
from gradlex.population._state import copy

_PIECE = 1 << 20
"""Elements that are computed at once, so that a large tensor needs no large copies of itself in float64."""

_COUNTED = ("step", "eta", "mu", "mu_product")
"""What torch's optimizers keep of how far they have come: the same for all, or the largest weight's."""


def averaged(state: State, optimizer: OptimizerState | None) -> dict[tuple[str, ...], Tensor]:
    """Every tensor of a candidate that a mean is taken of, by its place.

    Whole numbers are not (batch counts), nor what an optimizer counts for a parameter (its steps).
    """
    found: dict[tuple[str, ...], Tensor] = {
        ("state", name): tensor for name, tensor in state.items() if _fractional(tensor)
    }
    for name, values in (optimizer or {}).items():
        for key, value in values.items():
            follows = isinstance(value, Tensor) and (value.ndim or not state[name].ndim)
            if follows and key not in _COUNTED and _fractional(value):
                found["optimizer", name, key] = value
    return {place: tensor for place, tensor in found.items() if tensor.numel()}


def pieces(tensor: Tensor, like: Tensor) -> Sequence[Tensor]:
    """The tensor's elements in the memory order of `like`, piece by piece; views of it where that is its own."""
    if tensor.stride() != like.stride():
        tensor = torch.empty_like(like).copy_(tensor)
    return torch.split(tensor.as_strided((tensor.numel(),), (1,)), _PIECE)


def move_to_mean(reference: Tensor, others: Iterable[tuple[float, Tensor]]) -> None:
    """Make `reference` the weighted mean of itself and `others`, given as weight and tensor; weights sum to 1.

    As reference + sum of weight x (other - reference), identical tensors give themselves, bit for bit.
    """
    start = _wide(reference)
    shift = torch.zeros_like(start)
    for weight, other in others:
        # What is equal adds nothing: a mask of -inf minus itself would be NaN. Multiplied, then added: one step
        # for both may round otherwise at the end of a thread's part.
        given = _wide(other)
        shift.add_((given - start).masked_fill_(given == start, 0).mul_(weight))
    reference.copy_(torch.where(shift == 0, start, start + shift))


def outer_step(
    parent: State,
    promoted: State,
    velocity: State | None,
    names: Sequence[str],
    *,
    lr: float,
    momentum: float,
    nesterov: bool,
) -> State | None:
    """Move the parent's parameters towards what is promoted (SlowMo, Wang et al. 2020; DiLoCo, Douillard et al. 2023).

    `promoted` is changed in place; returned is the velocity for the next generation, None without momentum. With
    d = promoted - parent and v <- momentum v + d, the parent becomes parent + lr v, or, in Nesterov's form,
    parent + lr (d + momentum v). A rate of 1 without momentum is `promoted` itself.
    """
    if lr == 1 and momentum == 0:
        return None
    moving = {name: torch.empty_like(promoted[name]) for name in names if momentum}
    for name in names:
        target = promoted[name]
        origins = pieces(parent[name].to(target.device), target)
        before = None if velocity is None else pieces(velocity[name].to(target.device), target)
        after = pieces(moving[name], target) if momentum else None
        for number, piece in enumerate(pieces(target, target)):
            start = _wide(origins[number])
            delta = _wide(piece) - start
            speed = delta if before is None else momentum * _wide(before[number]) + delta
            step = delta + momentum * speed if nesterov else speed
            piece.copy_(start + lr * step)
            if after is not None:
                after[number].copy_(speed)
    return moving if momentum else None


def moving_average(average: State | None, state: State, decay: float) -> State:
    """decay x average + (1 - decay) x state; whole numbers are the state's. It begins with the first state."""
    found = copy(state)
    for name, tensor in found.items():
        if average is not None and _fractional(tensor):
            before = pieces(average[name].to(tensor.device), tensor)
            for piece, old in zip(pieces(tensor, tensor), before, strict=True):
                piece.copy_(decay * _wide(old) + (1 - decay) * _wide(piece))
    return found


def _fractional(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _wide(tensor: Tensor) -> Tensor:
    """The tensor in double precision; on the host where its device has none."""
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.to("cpu" if tensor.device.type == "mps" else tensor.device, dtype)
