"""Train a model of one's own on arrays of one's own, and compare with plain SGD on the same samples."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import gradlex

digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16  # (N, 1, 8, 8)
y = torch.tensor(digits.target)
train, test = (x[:1400], y[:1400]), (x[1400:], y[1400:])

torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

lexicase = gradlex.Recipe(population=4, generations=20, batch_size=32)
sgd = gradlex.Recipe(selection="sgd", generations=20, batch_size=32)  # as many samples as lexicase uses
for recipe in (lexicase, sgd):
    run = gradlex.train(net, train, recipe, test=test)
    print(f"{recipe.selection}: test accuracy {run.result['test_accuracy']:.2%}")
