"""Lightning: a LightningModule as it is, trained candidate by candidate, each by a Trainer of one epoch.

    pip install lightning
    python examples/with_lightning.py

`configure_optimizers` makes a new optimizer for each Trainer, so the Population needs none: every candidate starts with
empty momentum. To inherit it, return one optimizer each time, and give it to the Population too.
"""

import logging
import warnings

import gradlex
import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")  # of few workers and few batches


class Digits(lightning.LightningModule):
    """A small perceptron."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    def training_step(self, batch, _):
        images, labels = batch
        return F.cross_entropy(self.layers(images), labels)


torch.manual_seed(0)
x, y = load_digits(return_X_y=True)
dataset = TensorDataset(torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y))
module = Digits()
population = gradlex.Population(module, size=4)


def wrong(cases):
    images, labels = dataset[cases]
    return module.layers(images).argmax(dim=1) != labels


for _ in range(10):
    for candidate in population.candidates(1400):
        loader = DataLoader(Subset(dataset, candidate.indices), batch_size=20, shuffle=True)
        lightning.Trainer(max_epochs=1, accelerator="cpu", barebones=True).fit(module, loader)
    population.select(wrong, 1400)
module.eval()
print(f"test accuracy {1 - wrong(torch.arange(1400, len(dataset))).float().mean().item():.1%}")
