"""SubGD: one candidate's mini-batch gradient descent through its subset (Ding & Spector 2022, section 3.1)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves, tree_map

from gradlex.population._state import batch_norm_layers, statistics_of


class Batch(NamedTuple):
    """What one gradient step is computed from, or this process's part of it."""

    inputs: Any
    targets: Any
    samples: float
    """How many of the subset's samples this process accounts for in the step."""
    weight: float = 1.0
    """Of the loss: this process's in the mean over the processes that share the step, and a part's in its batch."""

    def parts(self, count: int) -> list[Batch]:
        """The batch in so many parts of nearly the same size; fewer where a part would be a single sample."""
        size = len(tree_leaves(self.inputs)[0])
        count = min(count, max(size // 2, 1))
        if count == 1:
            return [self]
        bounds = [size * place // count for place in range(count + 1)]
        parts = []
        for start, stop in pairwise(bounds):
            inputs, targets = tree_map(operator.itemgetter(slice(start, stop)), (self.inputs, self.targets))
            parts.append(Batch(inputs, targets, self.samples, weight=self.weight * ((stop - start) / size)))
        return parts


def subgd(
    model: Callable[[Any], Any],
    optimizer: Optimizer,
    batches: Iterable[Batch],
    loss: Callable[[Any, Any], Tensor],
    precision: torch.autocast,
    *,
    accumulate: int = 1,
    clip: Callable[[], object] | None = None,
) -> Tensor:
    """Take one step a batch; return the mean loss over the subset's samples, still on the device.

    A step's gradient is computed in `accumulate` parts; `clip` is called before each step.
    """
    total: Tensor | float = 0.0
    samples = 0.0
    optimizer.zero_grad(set_to_none=True)  # the caller's model may have gradients
    for batch in batches:
        for part in batch.parts(accumulate):
            with precision:
                value = loss(model(part.inputs), part.targets)
            if part.weight != 1.0:
                value = value * part.weight
            value.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            total = total + value.detach() * part.samples
        if clip is not None:
            clip()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
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
