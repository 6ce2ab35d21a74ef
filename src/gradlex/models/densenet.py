"""DenseNet: Huang, Liu, van der Maaten and Weinberger, "Densely Connected Convolutional Networks", CVPR 2017.

DenseNet121 is the DenseNet-BC of table 1 in the 32 x 32 form: the first convolution is 3 x 3 with stride 1
and has no norm, ReLU or pooling behind it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchvision.ops import Conv2dNormActivation

from gradlex.models.blocks import image_classifier, scaled

_BLOCKS = (6, 12, 24, 16)
_GROWTH = 32


class DenseLayer(nn.Module):
    """H_l of equation 2: a 1 x 1 bottleneck of 4 x growth channels, then 3 x 3; the new maps join the old."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            Conv2dNormActivation(channels, 4 * growth, 1),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, maps: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C + growth, H, W)."""
        return torch.cat((maps, self.branch(maps)), dim=1)


def _transition(channels: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, out, 1, bias=False),
        nn.AvgPool2d(2),
    )


def densenet121(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """DenseNet121 with compression 0.5, 32 x 32 form; `width` scales the growth, and so all the rest."""
    growth = scaled(_GROWTH, width)
    channels = 2 * growth
    stages: dict[str, nn.Module] = {"conv1": nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)}
    for number, layers in enumerate(_BLOCKS, start=1):
        if number > 1:
            stages[f"transition{number - 1}"] = _transition(channels, channels // 2)
            channels //= 2
        dense = [DenseLayer(channels + layer * growth, growth) for layer in range(layers)]
        stages[f"dense{number}"] = nn.Sequential(*dense)
        channels += layers * growth
    stages["norm"] = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
    return image_classifier(stages, channels=channels, num_classes=num_classes)
