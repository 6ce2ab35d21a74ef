"""Normalization by the training part's own statistics, kept with the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gradlex.errors import InputError

_BLOCK = 1024  # samples


@dataclass(frozen=True, kw_only=True)
class Normalization:
    """Mean and standard deviation of each channel (or feature); bytes count as 0 to 1.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from gradlex.data import Normalization
        >>> normalization = Normalization.of(np.array([[0.0, 5.0], [2.0, 5.0]]))
        >>> normalization.mean, normalization.std  # a constant feature is divided by 1
        ((1.0, 5.0), (1.0, 1.0))
        >>> normalization.apply(torch.tensor([[4.0, 6.0]]))
        tensor([[3., 1.]])
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
            shares = sum(_histogram(block) for block in blocks) / each
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

    def apply(self, x: Tensor) -> Tensor:
        """Normalized float32 inputs for the trained model, from inputs such as it was trained on."""
        shift, factor = self.tensors(x)
        return (x.float() - shift).mul_(factor)

    def tensors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """What to subtract from and multiply by a batch such as `like`, (N, channels, ...).

        They are spelt out over height and width: broadcasting a few channels is many times slower.
        """
        if like.shape[1] != len(self.mean):
            raise InputError(f"this run was trained on {len(self.mean)} channels, got {like.shape[1]}.")
        scale = 255.0 if like.dtype == torch.uint8 else 1.0
        shape = (1, -1, *(1 for _ in like.shape[2:]))
        shift = torch.tensor(self.mean, dtype=torch.float32).view(shape) * scale
        factor = 1 / (torch.tensor(self.std, dtype=torch.float32).view(shape) * scale)
        full = (1, *like.shape[1:])
        if like.ndim != 4:
            return shift.expand(full).to(like.device), factor.expand(full).to(like.device)
        return (
            shift.expand(full).to(like.device).contiguous(memory_format=torch.channels_last),
            factor.expand(full).to(like.device).contiguous(memory_format=torch.channels_last),
        )


def _histogram(x: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """How often each channel holds each byte: (channels, 256)."""
    return np.stack([np.bincount(x[..., c].ravel(), minlength=256) for c in range(x.shape[-1])])
