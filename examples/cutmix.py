"""CutMix (Yun et al. 2019): training batches are mixed, selection sees clean samples.

Augmentation is part of the body of the loop. Its random numbers come from `candidate.rng`, or from torch's generator,
which has a seed of this candidate's inside the loop: both give the same results with any number of processes.
"""

import gradlex
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

EPOCHS = 20
digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
y = torch.tensor(digits.target)

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)
population = gradlex.Population(model, optimizer, size=4)


def cutmix(images, labels, rng):
    """Paste a random box of another image into each; targets are the shares of both labels."""
    height, width = images.shape[2:]
    order = torch.from_numpy(rng.permutation(len(images)))
    side = (1 - rng.beta(1.0, 1.0)) ** 0.5
    middle = rng.uniform(size=2) * (height, width)
    top, left = (middle - side * height / 2).clip(0).round().astype(int)
    bottom, right = (middle + side * height / 2).clip(0, (height, width)).round().astype(int)
    mixed = images.clone()
    mixed[:, :, top:bottom, left:right] = images[order, :, top:bottom, left:right]
    kept = 1 - (bottom - top) * (right - left) / (height * width)
    one_hot = F.one_hot(labels, 10).float()
    return mixed, kept * one_hot + (1 - kept) * one_hot[order]


for _ in range(EPOCHS):
    for candidate in population.candidates(1400):
        for batch in torch.from_numpy(candidate.indices).split(20):
            images, targets = cutmix(x[batch], y[batch], candidate.rng)
            optimizer.zero_grad()
            F.cross_entropy(model(images), targets).backward()
            optimizer.step()
    population.select(lambda cases: model(x[cases]).argmax(dim=1) != y[cases], 1400)
    scheduler.step()
print(f"test accuracy {(model(x[1400:]).argmax(dim=1) == y[1400:]).float().mean().item():.1%}")
