"""Batch norm folded into the convolutions before it, for networks that only answer cases.

In evaluation mode batch norm is a fixed scale and shift of each channel: with the scale in the convolution's weights
and the shift in its bias, a pass over its output is saved. The values are the same up to rounding.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_weights

from gradlex.errors import InputError
from gradlex.population import State

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class _Pair(NamedTuple):
    convolution: str
    norm: str
    eps: float


class Folding:
    """A network like `model` whose convolutions do what the batch norm behind them did."""

    def __init__(self, model: nn.Module) -> None:
        try:
            traced = fx.symbolic_trace(copy.deepcopy(model).eval())
        except Exception as error:  # whatever a model of the user's may raise when it is traced
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"fold_norm needs a model that torch.fx can trace, and this one it cannot: "
                f"{type(error).__name__}: {reason}. Leave it out."
            ) from error
        self._pairs = _folded(traced)
        if not self._pairs:
            raise InputError(
                "fold_norm needs batch norm directly behind a convolution, and this model has none: leave it out."
            )
        self.module: nn.Module = traced
        self._names = {*dict(traced.named_parameters()), *dict(traced.named_buffers())}

    @torch.no_grad()
    def state(self, state: State) -> State:
        """What the folded network computes with, from the state of the network itself."""
        found: dict[str, Tensor] = {name: tensor for name, tensor in state.items() if name in self._names}
        for convolution, norm, eps in self._pairs:
            weight, bias = fuse_conv_bn_weights(
                state[f"{convolution}.weight"],
                state.get(f"{convolution}.bias"),
                state[f"{norm}.running_mean"],
                state[f"{norm}.running_var"],
                eps,
                state.get(f"{norm}.weight"),
                state.get(f"{norm}.bias"),
            )
            found[f"{convolution}.weight"], found[f"{convolution}.bias"] = weight.detach(), bias.detach()
        return found


def _folded(traced: fx.GraphModule) -> list[_Pair]:
    """Take batch norm out where it is all that a convolution's output goes to; which ones those were."""
    calls = [node for node in traced.graph.nodes if node.op == "call_module"]
    modules = dict(traced.named_modules())
    shared = dict(traced.named_parameters(remove_duplicate=False))
    tied = {name for name, t in shared.items() if sum(t is other for other in shared.values()) > 1}
    places = [modules[str(node.target)] for node in calls]
    pairs: list[_Pair] = []
    for node in calls:
        before, norm = node.args[0] if node.args else None, modules[str(node.target)]
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) > 1:
            continue
        convolution, name = modules[str(before.target)], str(before.target)
        alone = all(sum(each is one for each in places) == 1 for one in (convolution, norm))
        if (
            isinstance(convolution, _CONVOLUTIONS)
            and isinstance(norm, _BatchNorm)
            and norm.track_running_stats
            and alone
            and f"{name}.weight" not in tied
        ):
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
            if convolution.bias is None:
                convolution.bias = nn.Parameter(convolution.weight.new_zeros(convolution.out_channels))
            pairs.append(_Pair(name, str(node.target), norm.eps))
    traced.delete_all_unused_submodules()
    traced.recompile()
    return pairs
