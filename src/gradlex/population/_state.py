"""A network's state by reference: swap candidates in and out of one module without copying.

The parameters of the module stay the same objects, so tied weights stay tied, and an optimizer or a compiled
graph that holds them stays valid; only the storage behind them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

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


def changing(module: nn.Module) -> set[str]:
    """What a pass may change: buffers, and the weights of embeddings with a `max_norm`, which are scaled down."""
    scaled = {
        id(layer.weight)
        for layer in module.modules()
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None
    }
    buffers = {name for name, _ in module.named_buffers()}
    return buffers | {name for name, parameter in module.named_parameters() if id(parameter) in scaled}


def shielded(state: State, names: set[str]) -> State:
    """The state for passes that may change what has these names: copies of that, and the rest shared."""
    return {name: tensor.clone() if name in names else tensor for name, tensor in state.items()}


@contextmanager
def same_buffers(module: nn.Module) -> Iterator[None]:
    """Put the module's buffers back afterwards: a pass may put other tensors in their place."""
    before = [
        (layer, name, buffer)
        for layer in module.modules()
        for name, buffer in layer.named_buffers(recurse=False)
    ]
    try:
        yield
    finally:
        for layer, name, buffer in before:
            setattr(layer, name, buffer)


def batch_norm_layers(module: nn.Module) -> dict[str, nn.modules.batchnorm._BatchNorm]:
    """The layers that estimate statistics from their batches, by name."""
    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_mean is not None
    }


def statistics_of(layers: Iterable[str]) -> set[str]:
    """The names of the buffers that these batch-norm layers estimate."""
    return {
        f"{layer}.{name}" if layer else name
        for layer in layers
        for name in ("running_mean", "running_var", "num_batches_tracked")
    }


def channels_last(module: nn.Module) -> nn.Module:
    """The module with its four-dimensional tensors in the memory format that convolutions of images are fastest in.

    `module.to(memory_format=...)` would refuse one that has tensors of five dimensions too.
    """
    for tensor in tensors(module).values():
        if tensor.ndim == 4:
            tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
    return module


def install(module: nn.Module, state: State) -> None:
    """Make the module compute with this state from now on, sharing its storage."""
    installer(module)(state)


def installer(module: nn.Module, *, copies: bool = False) -> Callable[[State], None]:
    """Installs one state after the other: the module is walked through once, which takes longer than a small pass.

    With `copies` the module keeps its own storage.
    """
    places = {
        name: (module.get_submodule(layer), own)
        for name in tensors(module)
        for layer, _, own in [name.rpartition(".")]
    }

    def put(state: State) -> None:
        for name, tensor in state.items():
            layer, own = places[name]
            live = getattr(layer, own)  # what is there now: a pass may have replaced a buffer
            if copies:
                live.detach().copy_(tensor)
            else:
                live.data = tensor

    return put
