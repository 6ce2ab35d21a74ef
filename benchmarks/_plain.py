"""Images the way most scripts load them: one by one through PIL and torchvision's transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


def plain_loader(x: np.ndarray, batch_size: int) -> DataLoader[Any]:
    """Shuffled batches of images (N, 32, 32, 3), cropped, flipped and normalised, without worker processes."""
    transform = transforms.Compose(
        [
            transforms.RandomCrop(32, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.49, 0.48, 0.45), (0.25, 0.24, 0.26)),
        ]
    )
    return DataLoader(Images(x, transform), batch_size=batch_size, shuffle=True)


class Images(Dataset[Any]):
    """What a torchvision dataset does for one sample: a PIL image, then the transforms."""

    def __init__(self, x: np.ndarray, transform: Callable[[Image.Image], torch.Tensor]) -> None:
        self.x, self.transform = x, transform

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(self.x[place])), place % 10
