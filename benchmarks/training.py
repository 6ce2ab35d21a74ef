"""Samples a second of `gradlex.train` against a plain PyTorch loop: crop, flip, forward, backward, step.

    python benchmarks/training.py [--model resnet20] [--samples 512] [--turns 5]

Both train the same network on the same random images, in turns, with one thread, in float32. The plain loop has a
DataLoader with torchvision's transforms for each image. Evaluation and selection are left out. Prints the medians.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

import gradlex

BATCH, EPOCHS = 64, 2


class Images(Dataset):
    """Random images with crop and flip."""

    transform = v2.Compose(
        [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)]
    )

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transform(self.x[index]), self.y[index]


def plain_seconds(name: str, x: torch.Tensor, y: torch.Tensor) -> float:
    model = gradlex.models.build(name, sample=(3, 32, 32), outputs=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    started = time.perf_counter()
    for _ in range(EPOCHS):
        for images, labels in DataLoader(Images(x, y), batch_size=BATCH, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return time.perf_counter() - started


def gradlex_seconds(name: str, x: torch.Tensor, y: torch.Tensor) -> float:
    recipe = gradlex.Recipe(
        model=name,
        epochs=EPOCHS,
        batch_size=BATCH,
        lr=0.01,
        augment="crop4,flip",
        selection="random",
        precision="float32",
    )
    run = gradlex.train(None, (x, y), recipe, threads=1, device="cpu", progress=False)
    return sum(record.train_seconds for record in run.history)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet20", help="a name from `gradlex list models`")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(256, size=(options.samples, 3, 32, 32), dtype=np.uint8))
    y = torch.from_numpy(rng.integers(10, size=options.samples))
    turns = [(plain_seconds(options.model, x, y), gradlex_seconds(options.model, x, y)) for _ in range(options.turns)]
    plain, ours = (statistics.median(column) for column in zip(*turns, strict=True))
    total = EPOCHS * options.samples
    print(f"plain {total / plain:.0f} samples/s, gradlex {total / ours:.0f} samples/s, ratio {plain / ours:.2f}")
