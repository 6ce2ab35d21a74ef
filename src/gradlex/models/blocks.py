"""Parts that the architectures share: scaled channels, the residual sum, the end of every classifier."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from torch import Tensor, nn


def scaled(channels: int, width: float, *, multiple: int = 1) -> int:
    """`channels` times `width`, rounded to the nearest multiple of `multiple` above zero, halves upwards."""
    return multiple * max(1, int(channels * width / multiple + 0.5))


class Residual(nn.Module):
    """`branch(x) + shortcut(x)`: equations 1 and 2 of He et al. (2016). Neither may change x in place."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut

    def forward(self, maps: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, channels of the branch, its height, its width)."""
        total: Tensor = self.branch(maps) + self.shortcut(maps)
        return total


def image_classifier(
    stages: Mapping[str, nn.Module], *, channels: int, num_classes: int, dropout: float = 0.0
) -> nn.Sequential:
    """The stages under their names, global average pooling (so any image size), and one linear layer.

    (N, channels of the image, height, width) -> (N, classes); `channels` is what the last stage returns.
    """
    ending: dict[str, nn.Module] = {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    if dropout > 0:
        ending["dropout"] = nn.Dropout(dropout)
    ending["classifier"] = nn.Linear(channels, num_classes)
    return nn.Sequential(OrderedDict({**stages, **ending}))
