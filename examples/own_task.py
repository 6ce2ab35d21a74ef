"""A task of your own: regression, where a case is solved when the prediction is within a tolerance."""

import torch
import torch.nn.functional as F
from torch import nn

import gradlex
from gradlex.tasks import Measure


class Regression:
    """Squared error to descend; 0 (within `tolerance`) or 1 to select on."""

    measures = (Measure(name="mae", higher_is_better=False), Measure(name="within", fraction=True))
    graded = False  # errors are 0 or 1 only

    def __init__(self, tolerance=0.1):
        self.tolerance = tolerance

    def check(self, inputs, targets, outputs):
        """Refuse outputs that are not one number per sample."""
        if outputs.ndim != 1:
            raise gradlex.InputError(f"regression needs outputs (samples,), got {tuple(outputs.shape)}.")

    def loss(self, outputs, targets):
        """The mean squared error of a batch."""
        return F.mse_loss(outputs.float(), targets)

    def errors(self, outputs, targets):
        """0 where the prediction is close enough."""
        return ((outputs - targets).abs() > self.tolerance).float()

    def metrics(self, batches):
        """The mean absolute error of a whole set, and the share within the tolerance."""
        distances = torch.cat([(outputs - targets).abs() for outputs, targets in batches])
        return {"mae": distances.mean().item(), "within": (distances <= self.tolerance).float().mean().item()}


torch.manual_seed(0)
x = torch.rand(1000, 2) * 4 - 2
y = torch.sin(x[:, 0]) * x[:, 1]
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))
recipe = gradlex.Recipe(generations=40, batch_size=20)
run = gradlex.train(net, (x[:800], y[:800]), recipe, test=(x[800:], y[800:]), task=Regression())
print(f"mean absolute error {run.test['mae']:.3f}, within 0.1: {run.test['within']:.0%}")
