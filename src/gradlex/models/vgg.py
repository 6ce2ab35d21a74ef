"""VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition",
ICLR 2015.

Table 1, column D, with batch normalization (Ioffe and Szegedy 2015) after every convolution and, since a
32 x 32 image is 1 x 1 after the fifth pooling, one linear layer in place of the three.
"""

from __future__ import annotations

from torch import nn
from torchvision.ops import Conv2dNormActivation

from gradlex.models.blocks import image_classifier, scaled

# (channels, convolutions) of the five stages, each ended by a 2 x 2 max-pooling
_VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def vgg16(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """VGG16 with batch norm: 13 convolutions, one linear layer."""
    stages: dict[str, nn.Module] = {}
    channels = in_channels
    for number, (published, convolutions) in enumerate(_VGG16, start=1):
        out = scaled(published, width)
        layers: list[nn.Module] = []
        for _ in range(convolutions):
            # The bias is idle before a norm; the published counts include it.
            layers.append(Conv2dNormActivation(channels, out, bias=True))
            channels = out
        stages[f"conv{number}"] = nn.Sequential(*layers, nn.MaxPool2d(2))
    return image_classifier(stages, channels=channels, num_classes=num_classes)
