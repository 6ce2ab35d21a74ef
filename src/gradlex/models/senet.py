"""SENet: Hu, Shen and Sun, "Squeeze-and-Excitation Networks", CVPR 2018.

SENet18 has ResNet18's stages, pre-activation blocks (He et al., "Identity Mappings in Deep Residual
Networks", ECCV 2016) and, at the end of every branch, squeeze-and-excitation with reduction 16. The 32 x 32
form has a norm after the first convolution, none after the last block and none on the shortcuts: the
parameter count says so.
"""

from __future__ import annotations

from torch import nn
from torchvision.ops import Conv2dNormActivation, SqueezeExcitation

from gradlex.models.blocks import Residual, image_classifier, scaled

_REDUCTION = 16


def _block(channels: int, out: int, stride: int) -> nn.Module:
    activated = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
    branch = nn.Sequential(
        Conv2dNormActivation(channels, out, 3, stride),
        nn.Conv2d(out, out, 3, padding=1, bias=False),
        SqueezeExcitation(out, max(1, out // _REDUCTION)),
    )
    if stride == 1 and channels == out:
        return Residual(nn.Sequential(activated, branch), nn.Identity())
    # Where the shape changes, the shortcut starts from the activated maps too.
    shortcut = nn.Conv2d(channels, out, 1, stride, bias=False)
    return nn.Sequential(activated, Residual(branch, shortcut))


def senet18(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """SENet18, 32 x 32 form."""
    channels = scaled(64, width)
    stages: dict[str, nn.Module] = {"conv1": Conv2dNormActivation(in_channels, channels)}
    for index in range(4):
        stride = 1 if index == 0 else 2
        out = channels * stride
        stages[f"conv{index + 2}_x"] = nn.Sequential(_block(channels, out, stride), _block(out, out, 1))
        channels = out
    return image_classifier(stages, channels=channels, num_classes=num_classes)
