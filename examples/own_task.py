"""A task of your own: regression, where a case is solved when the prediction is within a tolerance."""

import gradlex
import torch
from gradlex.tasks import Measure, Task
from torch import nn


class WithinTolerance(Task):
    """A squared error to train on; 0 (within the tolerance) or 1 to select by."""

    measures = (Measure("within", fraction=True), Measure("mae", higher_is_better=False))
    graded = False  # errors are 0 or 1 only

    def __init__(self, tolerance=0.1):
        self.tolerance = tolerance

    def loss(self, outputs, targets):
        """The mean squared error of a batch."""
        return nn.functional.mse_loss(outputs, targets)

    def errors(self, outputs, targets):
        """0 where the prediction is close enough."""
        return ((outputs - targets).abs() > self.tolerance).float()

    def metrics(self, batches):
        """The share within the tolerance, and the mean absolute error, of a whole set."""
        distances = torch.cat([(outputs - targets).abs() for outputs, targets in batches])
        return {"within": (distances <= self.tolerance).float().mean().item(), "mae": distances.mean().item()}


torch.manual_seed(0)
x = torch.rand(1000, 2) * 4 - 2
y = torch.sin(x[:, 0]) * x[:, 1]
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))
recipe = gradlex.Recipe(epochs=40, batch_size=20)
run = gradlex.train(net, (x[:800], y[:800]), recipe, test=(x[800:], y[800:]), task=WithinTolerance())
print(f"mean absolute error {run.metrics['test']['mae']:.3f}, within 0.1: {run.metrics['test']['within']:.0%}")
