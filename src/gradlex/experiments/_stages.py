"""The last two stages of a network, whose activations are looked at where no layer is named.

A stage is what works on maps of one size: children of the network that follow each other and whose outputs have the
same height and width, named by the last of them. In a ResNet these are conv2_x, conv3_x, ... of He et al. 2016. Where
one child holds the whole of it (small-cnn's `features`), its own children are looked at. In a network without maps
(mlp) they are what the last two weighted layers are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from torch import nn

_POOLING = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d)


def last_stages(modules: Mapping[str, nn.Module], shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """The names of at most two; `shapes` are of the modules' outputs, in the order of computing."""
    return _stages(modules, shapes, inside="")[-2:]


def _stages(
    modules: Mapping[str, nn.Module], shapes: Mapping[str, tuple[int, ...]], inside: str
) -> list[str]:
    """The stages among the children of one module."""
    children = [
        name
        for name in shapes
        if name.rpartition(".")[0] == inside and not isinstance(modules[name], _POOLING)
    ]
    maps = [name for name in children if len(shapes[name]) == 4]
    if maps:
        sizes = [list(group) for _, group in groupby(maps, key=lambda name: shapes[name][2:])]
        stages = [group[-1] for group in sizes if any(_weighted(modules[name]) for name in group)]
    else:
        weighted = [place for place, name in enumerate(children) if _weighted(modules[name])]
        stages = [children[place - 1] for place in weighted[1:]]
    holders = maps or children
    if len(stages) < 2 and len(holders) == 1:
        return _stages(modules, shapes, inside=holders[0]) or stages
    return stages


def _weighted(module: nn.Module) -> bool:
    """Whether it holds a matrix or kernel of weights; a norm's scales are none."""
    return any(parameter.ndim >= 2 for parameter in module.parameters())
