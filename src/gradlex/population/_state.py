"""A network's state by reference: swap candidates in and out of one module without copying.

The parameters of the module stay the same objects, so tied weights stay tied, and an optimizer or a compiled
graph that holds them stays valid; only the storage behind them changes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gradlex.population._parent import State


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer of the module, live, tied ones once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def capture(module: nn.Module) -> State:
    """The module's present state, sharing its storage."""
    return {name: tensor.detach() for name, tensor in tensors(module).items()}


def copy(state: State) -> State:
    """A state of its own with the same values and memory formats."""
    return {name: tensor.clone() for name, tensor in state.items()}


def moved(state: State, device: torch.device) -> State:
    """The state on this device, sharing the storage of what is there already."""
    return {name: tensor.to(device) for name, tensor in state.items()}


def batch_norm_statistics(module: nn.Module) -> set[str]:
    """The names of the buffers that batch norm estimates from its batches."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, layer in module.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm)
        for name in ("running_mean", "running_var", "num_batches_tracked")
    }


def install(module: nn.Module, state: State) -> None:
    """Make the module compute with this state from now on, sharing its storage."""
    live = tensors(module)
    for name, tensor in state.items():
        live[name].data = tensor
