"""SubGD: one candidate's mini-batch gradient descent through its subset (Ding & Spector 2022, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gradlex.population._state import batch_norm_layers, statistics_of


class Batch(NamedTuple):
    """What one gradient step is computed from, or this process's part of it."""

    inputs: Any
    targets: Any
    samples: float
    """How many of the subset's samples this process accounts for in the step."""
    weight: float = 1.0
    """This process's loss in the mean over the processes that share the step."""


def subgd(
    model: Callable[[Any], Any],
    optimizer: Optimizer,
    batches: Iterable[Batch],
    loss: Callable[[Any, Any], Tensor],
    precision: torch.autocast,
) -> Tensor:
    """Take one step a batch; return the mean loss over the subset's samples, still on the device."""
    total: Tensor | float = 0.0
    samples = 0.0
    optimizer.zero_grad(set_to_none=True)  # the caller's model may have gradients
    for batch in batches:
        with precision:
            value = loss(model(batch.inputs), batch.targets)
        if batch.weight != 1.0:
            value = value * batch.weight
        value.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total = total + value.detach() * batch.samples
        samples += batch.samples
    return torch.as_tensor(total) / samples


def all_finite(model: nn.Module, loss: Tensor) -> bool:
    """Whether a trained candidate is usable: its mean loss and all that training has changed are finite.

    What it does not change may be infinite, a mask for example.
    """
    buffers, statistics = dict(model.named_buffers()), statistics_of(batch_norm_layers(model))
    trained = [
        *(parameter for parameter in model.parameters() if parameter.requires_grad),
        *(buffer for name, buffer in buffers.items() if name in statistics),
    ]
    checks = [torch.isfinite(tensor).all() for tensor in (loss, *trained)]
    return bool(torch.stack([check.to(loss.device) for check in checks]).all())
