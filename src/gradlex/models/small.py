"""Two small networks of our own, for digits, tables and a laptop."""

from __future__ import annotations

from torch import Tensor, nn
from torchvision.ops import Conv2dNormActivation


class SmallCNN(nn.Module):
    """Three 3 x 3 convolutions with batch norm, global average pooling, one linear layer; 8 x 8 and up."""

    def __init__(self, num_classes: int, in_channels: int, /, *, width: float = 1.0) -> None:
        super().__init__()
        wide = max(1, round(32 * width))
        self.features = nn.Sequential(
            Conv2dNormActivation(in_channels, wide),
            Conv2dNormActivation(wide, 2 * wide, stride=2),
            Conv2dNormActivation(2 * wide, 2 * wide),
        )
        self.classifier = nn.Linear(2 * wide, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(N, channels, height, width) -> (N, classes)."""
        features: Tensor = self.features(images)
        logits: Tensor = self.classifier(features.mean(dim=(2, 3)))
        return logits


def mlp(num_classes: int, in_channels: int, *, width: float = 1.0) -> nn.Module:
    """Two hidden layers of 128 units with ReLU on flattened input of `in_channels` numbers."""
    hidden = max(1, round(128 * width))
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(in_channels, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, num_classes),
    )
