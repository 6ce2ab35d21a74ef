"""A callback: stop early when the training loss no longer falls. The test part decides nothing."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import gradlex


class EarlyStopping(gradlex.Callback):
    """Stop after `patience` generations without a lower training loss."""

    def __init__(self, patience: int = 5) -> None:
        self.patience = patience

    def on_start(self, run):
        """A run may be resumed that was interrupted just after it was stopped."""
        self.look(run)

    def on_generation(self, run, record):
        """Look at what has happened so far."""
        self.look(run)

    def look(self, run):
        """Derived from the records, so that a resumed run stops at the same generation."""
        losses = [min(loss for loss in record.losses if loss is not None) for record in run.records]
        if losses and len(losses) - 1 - losses.index(min(losses)) >= self.patience:
            run.stop(f"no lower training loss in {self.patience} generations")


digits = load_digits()
x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
recipe = gradlex.Recipe(generations=200, batch_size=32, schedule="constant")
run = gradlex.train(net, (x[:1400], y[:1400]), recipe, test=(x[1400:], y[1400:]), callbacks=[EarlyStopping()])
print(f"{run.result['generations']} generations, stopped: {run.result['stopped']}")
print(f"test accuracy {run.test['accuracy']:.2%}")
