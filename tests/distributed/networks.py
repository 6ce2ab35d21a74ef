"""Networks for `--model networks:NAME`: a sound one, and those that fail on one rank in one generation."""

from __future__ import annotations

import os
import signal
import time

import torch.distributed as dist
from torch import Tensor, nn


class Sound(nn.Module):
    def __init__(self, num_classes: int, in_channels: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(in_channels, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(8 * 16, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.norm(self.conv(x)).relu().flatten(1)))


class Failing(Sound):
    """Fails on one rank, at its fifth training batch."""

    rank = 2
    steps = 0

    def forward(self, x: Tensor) -> Tensor:
        if dist.is_initialized() and dist.get_rank() == self.rank:
            if self.training:
                self.steps += 1
            if self.due():
                self.fail()
        return super().forward(x)

    def due(self) -> bool:
        return self.training and self.steps == 5

    def fail(self) -> None:
        raise RuntimeError("the third wheel came off")


class Together(Failing):
    """Fails on the second process of a candidate."""

    rank = 1


class Asked(Failing):
    """Fails when it is asked about cases."""

    rank = 1

    def due(self) -> bool:
        return not self.training

    def fail(self) -> None:
        raise KeyError("no such case")


class Killed(Failing):
    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Orphaned(Failing):
    """Kills the leading process."""

    rank = 1

    def fail(self) -> None:
        os.kill(os.getppid(), signal.SIGKILL)


class Slow(Sound):
    """Takes its time to train, so that something can happen meanwhile."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            time.sleep(0.01)
        return super().forward(x)


class Large(nn.Sequential):
    """A megabyte of weights, so that they are most of what is sent."""

    def __init__(self, num_classes: int, in_channels: int) -> None:
        super().__init__(
            nn.Flatten(), nn.Linear(16 * in_channels, 8192), nn.ReLU(), nn.Linear(8192, num_classes)
        )
