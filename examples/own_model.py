"""Train your own model on your own arrays, and compare with plain SGD on as many samples."""

import gradlex
import torch
from sklearn.datasets import load_digits
from torch import nn

digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16  # (N, 1, 8, 8)
y = torch.tensor(digits.target)
train, test = (x[:1400], y[:1400]), (x[1400:], y[1400:])

torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

for selection in ("lexicase", "sgd"):  # equal epochs are equal samples
    run = gradlex.train(net, train, test=test, selection=selection, epochs=20, batch_size=32)
    print(f"{selection}: test accuracy {run.metrics['test']['accuracy']:.1%}")
