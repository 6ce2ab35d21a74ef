"""ResNet: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", CVPR 2016.

ResNet18 and 50 are table 1 in the 32 x 32 form: a 3 x 3 first convolution with stride 1 and no max-pooling;
where the shape changes, the shortcut is a 1 x 1 convolution with norm (option B).
ResNet20 and 56 are section 4.2: 6n + 2 layers of 16, 32 and 64 channels; where the shape changes, the shortcut
takes every second pixel and pads new channels with zeros (option A), so it has no parameters.
Stages are named as in table 1: `conv1`, `conv2_x`, `conv3_x`, `conv4_x` and, in 18 and 50, `conv5_x`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import Conv2dNormActivation

from gradlex.models.blocks import Residual, image_classifier, scaled

_EXPANSION: Final = 4


class PaddedShortcut(nn.Module):
    """Option A: the identity on every `stride`-th pixel, with `extra` channels of zeros behind it."""

    def __init__(self, extra: int, stride: int) -> None:
        super().__init__()
        self.extra = extra
        self.stride = stride

    def forward(self, maps: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C + extra, ceil(H / stride), ceil(W / stride))."""
        return F.pad(maps[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))


def _projection(channels: int, out: int, stride: int) -> nn.Module:
    """Option B: a 1 x 1 convolution with norm."""
    layer: nn.Module = Conv2dNormActivation(channels, out, 1, stride, activation_layer=None)
    return layer


def _padding(channels: int, out: int, stride: int) -> nn.Module:
    return PaddedShortcut(out - channels, stride)


def _basic(channels: int, base: int, stride: int) -> nn.Sequential:
    """Two 3 x 3 convolutions (figure 5, left)."""
    return nn.Sequential(
        Conv2dNormActivation(channels, base, 3, stride),
        Conv2dNormActivation(base, base, 3, activation_layer=None),
    )


def _bottleneck(channels: int, base: int, stride: int) -> nn.Sequential:
    """1 x 1, 3 x 3, 1 x 1 (figure 5, right), the stride on the 3 x 3, as in the 32 x 32 form."""
    return nn.Sequential(
        Conv2dNormActivation(channels, base, 1),
        Conv2dNormActivation(base, base, 3, stride),
        Conv2dNormActivation(base, _EXPANSION * base, 1, activation_layer=None),
    )


def _resnet(
    branch: Callable[[int, int, int], nn.Sequential],
    shortcut: Callable[[int, int, int], nn.Module],
    blocks: Sequence[int],
    *,
    base: int,
    num_classes: int,
    in_channels: int,
) -> nn.Sequential:
    """Stages of `blocks` residual blocks; each after the first doubles the channels and halves the maps."""
    expansion = _EXPANSION if branch is _bottleneck else 1
    stages: dict[str, nn.Module] = {"conv1": Conv2dNormActivation(in_channels, base)}
    channels = base
    for index, repeats in enumerate(blocks):
        wide = base * 2**index
        out = wide * expansion
        layers: list[nn.Module] = []
        for repeat in range(repeats):
            stride = 2 if index > 0 and repeat == 0 else 1
            same = stride == 1 and channels == out
            across = nn.Identity() if same else shortcut(channels, out, stride)
            layers += [Residual(branch(channels, wide, stride), across), nn.ReLU(inplace=True)]
            channels = out
        stages[f"conv{index + 2}_x"] = nn.Sequential(*layers)
    return image_classifier(stages, channels=channels, num_classes=num_classes)


def resnet18(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """ResNet18, 32 x 32 form."""
    base = scaled(64, width)
    return _resnet(_basic, _projection, (2, 2, 2, 2), base=base, num_classes=num_classes, in_channels=in_channels)


def resnet50(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """ResNet50, 32 x 32 form."""
    base = scaled(64, width)
    return _resnet(_bottleneck, _projection, (3, 4, 6, 3), base=base, num_classes=num_classes, in_channels=in_channels)


def resnet20(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """ResNet20 of section 4.2 (n = 3)."""
    base = scaled(16, width)
    return _resnet(_basic, _padding, (3, 3, 3), base=base, num_classes=num_classes, in_channels=in_channels)


def resnet56(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """ResNet56 of section 4.2 (n = 9)."""
    base = scaled(16, width)
    return _resnet(_basic, _padding, (9, 9, 9), base=base, num_classes=num_classes, in_channels=in_channels)
