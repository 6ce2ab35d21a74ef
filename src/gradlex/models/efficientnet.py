"""EfficientNet: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks",
ICML 2019.

EfficientNetB0 is table 1 in the 32 x 32 form: the first convolution has stride 1 and the 1280-channel layer
before the classifier is left out. Where the expansion is 1 there is no expand layer, as in the publication:
3,598,598 parameters for 10 classes. The form with 3,599,686 has one there and never uses it.
Stochastic depth is off by default: the program of Ding and Spector (2022) trains without it, since the counter that
should raise it with depth is never incremented.
"""

from __future__ import annotations

from functools import partial

from torch import nn
from torchvision.ops import Conv2dNormActivation, SqueezeExcitation, StochasticDepth

from gradlex.models.blocks import Residual, image_classifier, scaled

# (expansion, kernel, channels, blocks, stride of the first block)
_STAGES = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
_BLOCKS = sum(stage[3] for stage in _STAGES)
_DROPOUT = 0.2

# In place, SiLU would first copy what its gradient needs.
_convolution = partial(Conv2dNormActivation, activation_layer=nn.SiLU, inplace=False)


def _mbconv(channels: int, out: int, *, expansion: int, kernel: int, stride: int, drop: float) -> nn.Module:
    """Expansion, depthwise convolution, squeeze-and-excitation, linear projection; training skips it this often."""
    hidden = expansion * channels
    layers: list[nn.Module] = [] if expansion == 1 else [_convolution(channels, hidden, 1)]
    layers += [
        _convolution(hidden, hidden, kernel, stride, groups=hidden),
        SqueezeExcitation(hidden, max(1, channels // 4), activation=nn.SiLU),
        Conv2dNormActivation(hidden, out, 1, activation_layer=None),
    ]
    if stride > 1 or channels != out:
        return nn.Sequential(*layers)
    if drop > 0:
        layers.append(StochasticDepth(drop, "row"))
    return Residual(nn.Sequential(*layers), nn.Identity())


def efficientnetb0(
    num_classes: int, in_channels: int, *, width: float = 1.0, stochastic_depth: float = 0.0
) -> nn.Module:
    """EfficientNetB0, 32 x 32 form; channels are multiples of 8.

    `stochastic_depth` is how often training skips a residual branch (Huang et al. 2016): 0 at the first block, rising
    linearly with depth to this value; 0.2 as published, 0 as in Ding and Spector (2022).
    """
    wide = partial(scaled, width=width, multiple=8)
    channels = wide(32)
    stages: dict[str, nn.Module] = {"stem": _convolution(in_channels, channels)}
    depth = 0
    for number, (expansion, kernel, published, blocks, first_stride) in enumerate(_STAGES, start=1):
        out = wide(published)
        layers: list[nn.Module] = []
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            drop = stochastic_depth * depth / _BLOCKS
            layers.append(_mbconv(channels, out, expansion=expansion, kernel=kernel, stride=stride, drop=drop))
            channels = out
            depth += 1
        stages[f"stage{number}"] = nn.Sequential(*layers)
    return image_classifier(stages, channels=channels, num_classes=num_classes, dropout=_DROPOUT)
