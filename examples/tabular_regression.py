"""Regression on a table: how far diabetes progresses in a year, from ten measurements (Efron et al. 2004)."""

import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from torch import nn

import gradlex

x, y = load_diabetes(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split((x / x.std(axis=0)).astype("float32"), y, random_state=0)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
recipe = gradlex.Recipe(
    generations=20, batch_size=16, lr=0.02
)  # selection: epsilon-lexicase, as the errors are graded
run = gradlex.train(net, (x_train, y_train), recipe, test=(x_test, y_test), task="regression")
print(f"R2 {run.test['r2']:.3f}, mean absolute error {run.test['mae']:.1f}")

predicted = run.task.predict(run.model(torch.from_numpy(x_test[:3])).detach())  # in the units of y
print("predicted", [round(value) for value in predicted.tolist()], "of", y_test[:3].astype(int).tolist())
