"""Regression on a table: how far diabetes progresses in a year, from ten measurements (Efron et al. 2004).

Errors of a regression are graded, so selection is epsilon-lexicase by default. Targets are normalized for training.
"""

import gradlex
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from torch import nn

x, y = load_diabetes(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x / x.std(axis=0), y, random_state=0)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
recipe = gradlex.Recipe(epochs=20, batch_size=16, lr=0.02)
run = gradlex.train(net, (x_train, y_train), recipe, test=(x_test, y_test), task="regression")
print("the first three patients:", run.predict(x_test[:3]).round().tolist(), "measured:", y_test[:3].tolist())
print(f"R2 {run.metrics['test']['r2']:.2f}, mean absolute error {run.metrics['test']['mae']:.1f}")
