"""Segmentation of bright squares and dark disks on a noisy ground: a case is an image, solved at 95% of its pixels.

What a case is, and when it is solved, is up to `errors`. The share of wrong pixels would do as well, with
selection="epsilon-lexicase".
"""

import gradlex
import torch
from torch import nn

rng = torch.Generator().manual_seed(0)
row, column = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
y = torch.zeros(300, 16, 16, dtype=torch.int64)
for image, (a, b, c, d) in zip(y, torch.randint(3, 13, (300, 4), generator=rng).tolist(), strict=True):
    image[(row - a).abs().maximum((column - b).abs()) <= 2] = 1
    image[(row - c) ** 2 + (column - d) ** 2 <= 6] = 2
x = torch.tensor([0.0, 1.0, -1.0])[y][:, None] + 0.6 * torch.randn(300, 1, 16, 16, generator=rng)
train, test = (x[:240], y[:240]), (x[240:], y[240:])

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1)
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
population = gradlex.Population(model, optimizer, size=2)


def right(images, masks):
    """The share of right pixels in each image."""
    return (model(images).argmax(dim=1) == masks).float().mean(dim=(1, 2))


for epoch in range(10):
    for candidate in population.candidates(240):
        for batch in torch.from_numpy(candidate.indices).split(10):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(train[0][batch]), train[1][batch]).backward()
            optimizer.step()
    choice = population.select(lambda cases: right(train[0][cases], train[1][cases]) < 0.95, 240)
    print(f"epoch {epoch + 1}: {choice.cases_used} cases used, {right(*test).mean().item():.1%} of test pixels right")
