"""MobileNetV2: Sandler, Howard, Zhu, Zhmoginov and Chen, "MobileNetV2: Inverted Residuals and Linear
Bottlenecks", CVPR 2018.

Table 2 in the 32 x 32 form. It departs from the table: the first convolution and the 24-channel stage have
stride 1; ReLU in place of ReLU6; an expand layer also where the expansion is 1; and where stride is 1 and the
channels change, the shortcut is a 1 x 1 convolution with norm instead of none.
"""

from __future__ import annotations

from functools import partial

from torch import nn
from torchvision.ops import Conv2dNormActivation

from gradlex.models.blocks import Residual, image_classifier, scaled

# (expansion, channels, blocks, stride of the first block)
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _inverted_residual(channels: int, out: int, expansion: int, stride: int) -> nn.Module:
    """1 x 1 expansion, 3 x 3 depthwise, 1 x 1 linear projection (figure 4d)."""
    hidden = expansion * channels
    branch = nn.Sequential(
        Conv2dNormActivation(channels, hidden, 1),
        Conv2dNormActivation(hidden, hidden, 3, stride, groups=hidden),
        Conv2dNormActivation(hidden, out, 1, activation_layer=None),
    )
    if stride > 1:
        return branch
    if channels == out:
        return Residual(branch, nn.Identity())
    return Residual(branch, Conv2dNormActivation(channels, out, 1, activation_layer=None))


def mobilenetv2(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """MobileNetV2, 32 x 32 form; channels are multiples of 8, and `width` scales the last 1280 as well."""
    wide = partial(scaled, width=width, multiple=8)
    channels = wide(32)
    stages: dict[str, nn.Module] = {"stem": Conv2dNormActivation(in_channels, channels)}
    for number, (expansion, published, blocks, first_stride) in enumerate(_STAGES, start=1):
        out = wide(published)
        layers: list[nn.Module] = []
        for block in range(blocks):
            layers.append(_inverted_residual(channels, out, expansion, first_stride if block == 0 else 1))
            channels = out
        stages[f"stage{number}"] = nn.Sequential(*layers)
    last = wide(1280)
    stages["last"] = Conv2dNormActivation(channels, last, 1)
    return image_classifier(stages, channels=last, num_classes=num_classes)
