"""Normalization by the training part's own statistics, as a layer before the network."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gradlex.errors import InputError

_BLOCK = 1024  # samples


@dataclass(frozen=True, kw_only=True)
class Normalization:
    """Mean and standard deviation of each channel (or feature); bytes count as 0 to 1.

    Examples:
        >>> import numpy as np
        >>> from gradlex.data.normalization import Normalization
        >>> Normalization.of(np.array([[0.0, 5.0], [2.0, 5.0]]))  # a constant feature is divided by 1
        Normalization(mean=(1.0, 5.0), std=(1.0, 1.0))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, x: npt.NDArray[Any]) -> Normalization:
        """The statistics of (N, height, width, channels) images or (N, features), computed in float64.

        Bytes are counted, which is exact; either way no float copy of more than a block is made.
        """
        channels, each = x.shape[-1], x.size // x.shape[-1]
        blocks = [x[start : start + _BLOCK] for start in range(0, len(x), _BLOCK)]
        if x.dtype == np.uint8:
            values = np.arange(256) / 255
            counts = [[np.bincount(b[..., c].ravel(), minlength=256) for c in range(channels)] for b in blocks]
            shares = np.sum(counts, axis=0) / each
            mean = shares @ values
            variance = (shares * (values - mean[:, None]) ** 2).sum(axis=1)
        else:
            flat = [block.reshape(-1, channels) for block in blocks]
            mean = sum(block.sum(axis=0, dtype=np.float64) for block in flat) / each
            variance = sum(((block - mean) ** 2).sum(axis=0) for block in flat) / each
        # A constant channel may miss a deviation of 0 by the rounding of its mean.
        std = np.sqrt(variance)
        varies = std > np.finfo(np.float32).eps * np.abs(mean)
        return cls(mean=tuple(mean.tolist()), std=tuple(np.where(varies, std, 1.0).tolist()))


class Normalize(nn.Module):
    """Subtracts the mean and divides by the standard deviation of each channel, axis 1; bytes count as 0 to 1."""

    mean: Tensor
    std: Tensor

    def __init__(self, normalization: Normalization) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(normalization.mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(normalization.std, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Normalized float32 inputs, from bytes or floats."""
        if x.ndim < 2 or x.shape[1] != len(self.mean):
            raise InputError(
                f"the model was trained on {len(self.mean)} channels or features, got inputs of shape {tuple(x.shape)}."
            )
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        shape, full = (1, -1, *(1 for _ in x.shape[2:])), (1, *x.shape[1:])
        shift = (self.mean.view(shape) * scale).expand(full)
        factor = (1 / (self.std.view(shape) * scale)).expand(full)
        if x.ndim == 4:  # written out over height and width: broadcasting a few channels is five times slower
            last = x.is_contiguous(memory_format=torch.channels_last)
            layout = torch.channels_last if last else torch.contiguous_format
            shift, factor = shift.contiguous(memory_format=layout), factor.contiguous(memory_format=layout)
        return ((x if x.dtype == torch.uint8 else x.float()) - shift).mul_(factor)


def normalized(network: nn.Module, normalization: Normalization | None) -> nn.Module:
    """The network behind its normalization: it takes inputs as the data holds them. None changes nothing.

    Examples:
        >>> import torch
        >>> from gradlex.data.normalization import Normalization, normalized
        >>> net = normalized(torch.nn.Flatten(), Normalization(mean=(0.0,), std=(0.5,)))
        >>> net(torch.full((1, 1, 1, 2), 255, dtype=torch.uint8)), list(net.state_dict())
        (tensor([[2., 2.]]), ['normalize.mean', 'normalize.std'])
    """
    if normalization is None:
        return network
    return nn.Sequential(OrderedDict(normalize=Normalize(normalization), network=network))
