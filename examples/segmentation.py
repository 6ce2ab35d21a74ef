"""Segmentation of synthetic shapes: bright squares and dark disks on a noisy ground; a case is an image."""

import torch
from torch import nn

import gradlex

rng = torch.Generator().manual_seed(0)
row, column = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
y = torch.zeros(300, 16, 16, dtype=torch.int64)
for image, (a, b, c, d) in zip(y, torch.randint(3, 13, (300, 4), generator=rng).tolist(), strict=True):
    image[(row - a).abs().maximum((column - b).abs()) <= 2] = 1
    image[(row - c) ** 2 + (column - d) ** 2 <= 6] = 2
brightness = torch.tensor([0.0, 1.0, -1.0])
x = brightness[y][:, None] + 0.6 * torch.randn(300, 1, 16, 16, generator=rng)

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1)
)
recipe = gradlex.Recipe(generations=8, batch_size=10, population=2)
run = gradlex.train(net, (x[:240], y[:240]), recipe, test=(x[240:], y[240:]))  # the targets tell the task
print(f"{run.recipe.task}: mIoU {run.test['miou']:.1%}, right pixels {run.test['pixel_accuracy']:.1%}")
