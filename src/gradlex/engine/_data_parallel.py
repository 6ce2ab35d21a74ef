"""Several processes train one candidate together: each takes a part of every batch.

Gradients are averaged by DistributedDataParallel with each part weighted by its samples, so that the step is
the one a single process would take. On a CPU batch norm sees a process's own part (SyncBatchNorm, which sees the
whole batch, exists for accelerators only); the buffers of the group's first process are the candidate's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map

from gradlex import _devices
from gradlex.population import Batch
from gradlex.selection import Indices


def as_bytes(tensor: Tensor) -> Tensor:
    """The bytes behind a tensor, whatever its memory format and type: gloo does not send every type."""
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def synchronised(model: nn.Module, group: dist.ProcessGroup | None) -> dict[str, _BatchNorm]:
    """Make the model's batch norm see the group's whole batch; returned are the layers it had, by name."""
    layers = model.named_modules(remove_duplicate=False)
    before = {name: layer for name, layer in layers if isinstance(layer, _BatchNorm)}
    nn.SyncBatchNorm.convert_sync_batchnorm(model, group)  # type: ignore[no-untyped-call]
    return before


def restore(model: nn.Module, layers: Mapping[str, _BatchNorm]) -> None:
    """Put layers like these back, with the weights and statistics of those that stand in their places.

    A layer that stands in several places stays one.
    """
    copies: dict[_BatchNorm, _BatchNorm] = {}
    for name, before in layers.items():
        if before not in copies:
            copies[before] = copy.copy(before)
            copies[before]._parameters = dict(before._parameters)
            copies[before]._buffers = dict(before._buffers)
        layer = copies[before]
        current = model.get_submodule(name)
        tensors = (*current.named_parameters(recurse=False), *current.named_buffers(recurse=False))
        for key, tensor in tensors:
            setattr(layer, key, tensor)
        model.set_submodule(name, layer)


class DataParallel:
    """The processes of one candidate: a row of the device mesh."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        self.group, self._device = group, device
        self._replaced: dict[str, _BatchNorm] = {}
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def wrap(self, model: nn.Module) -> nn.Module:
        """The module to call in training: averages gradients over the group as they are computed.

        DDP would wait for ever for the gradient of a parameter that a pass leaves out, at random perhaps, and
        differently on each process: so it is told to look for them.
        """
        if _devices.is_accelerator(self._device):
            self._replaced = synchronised(model, self.group)
        # The parent is the same everywhere already, and buffers agree at the end: DDP would send them before every
        # batch, and gloo does not send every type. (The attribute has one name in all versions; the keyword has not.)
        wrapped = DistributedDataParallel(
            model, process_group=self.group, init_sync=False, find_unused_parameters=True
        )
        wrapped.broadcast_buffers = False
        return wrapped

    @property
    def memo(self) -> dict[int, Any]:
        """What a deep copy of the model must share rather than copy."""
        return {id(self.group): self.group}

    def unwrap(self, model: nn.Module) -> None:
        """Give the model the batch norm of one process again: a process group can be neither copied nor saved."""
        restore(model, self._replaced)

    def part(self, inputs: Any, targets: Any, samples: int) -> Batch:
        """This process's part of a batch of so many samples; the whole of it where parts would be single samples."""
        if samples < 2 * self.size:
            return Batch(inputs, targets, samples / self.size)
        start, stop = (samples * place // self.size for place in (self.rank, self.rank + 1))
        inputs, targets = tree_map(lambda tensor: tensor[start:stop], (inputs, targets))
        return Batch(inputs, targets, samples / self.size, weight=(stop - start) * self.size / samples)

    def cases(self, cases: Indices) -> slice:
        """This process's part of a slice of cases."""
        bounds = np.linspace(0, len(cases), self.size + 1).astype(int)
        return slice(int(bounds[self.rank]), int(bounds[self.rank + 1]))

    def agree(self, model: nn.Module, loss: Tensor) -> Tensor:
        """Give the whole group the first process's buffers, and return the mean loss over the group."""
        for buffer in model.buffers():
            if buffer.numel():
                dist.broadcast(as_bytes(buffer), group=self.group, group_src=0)
        mean = loss.detach().clone()
        dist.all_reduce(mean, group=self.group)
        return mean / self.size
