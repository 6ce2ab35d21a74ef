"""A callback: watch how much the candidates disagree, and stop once their differences no longer matter.

Lexicase selection needs candidates that solve different cases. Where all candidates solve the same ones, its choice is
random, and a population is plain training at a higher price.
"""

import gradlex
import torch
from sklearn.datasets import load_digits
from torch import nn


class StopWhenAlike(gradlex.Callback):
    """Stop if two candidates differ on less than `share` of the cases, averaged over the last five generations."""

    def __init__(self, share=0.02):
        self.share = share

    def on_generation(self, record, run):
        """Derived from the history, so that a resumed run stops at the same generation."""
        last = [each.disagreement or 0.0 for each in run.history[-5:]]
        if len(last) == 5 and sum(last) / 5 < self.share:
            return f"candidates differ on less than {self.share:.0%} of the cases"
        return None


digits = load_digits()
x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
recipe = gradlex.Recipe(epochs=200, batch_size=32, schedule="constant")
run = gradlex.train(net, (x[:1400], y[:1400]), recipe, test=(x[1400:], y[1400:]), callbacks=[StopWhenAlike()])
print(f"stopped after {len(run.history)} epochs, test accuracy {run.metrics['test']['accuracy']:.1%}")
