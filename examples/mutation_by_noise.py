"""Mutation without gradients: candidates are the parent plus noise, and lexicase selection picks the next parent.

The body of the loop is free: gradlex needs no optimizer and doesn't know how a candidate comes about. Step sizes differ
between candidates, so large and small steps compete; candidate 0 stays as the parent was.
"""

import gradlex
import torch
from sklearn.datasets import load_wine
from torch import nn

torch.manual_seed(0)
x, y = load_wine(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
x = (x - x.mean(dim=0)) / x.std(dim=0)
order = torch.randperm(len(x))
train, test = order[:120], order[120:]

model = nn.Sequential(nn.Linear(13, 8), nn.Tanh(), nn.Linear(8, 3))
population = gradlex.Population(model, size=20, selection="lexicase(on_all_fail=survive)")


def wrong(cases):
    return model(x[train[cases]]).argmax(dim=1) != y[train[cases]]


for epoch in range(200):
    for candidate in population.candidates(len(train)):
        if candidate.index:
            with torch.no_grad():
                for weight in model.parameters():
                    weight.add_(torch.randn_like(weight), alpha=0.2 * candidate.rng.random() ** 2)
    choice = population.select(wrong, len(train))
    if epoch % 40 == 39:
        right = (model(x[test]).argmax(dim=1) == y[test]).float().mean().item()
        print(f"generation {epoch + 1}: candidate {choice.index}, test accuracy {right:.1%}")
