"""The mean of the last parents, as in stochastic weight averaging (Izmailov et al. 2018), by torch's own AveragedModel.

After `select` the model holds the parent: whatever watches a model once an epoch can watch the line of parents.
"""

import gradlex
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

EPOCHS, AVERAGED = 12, 4
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
population = gradlex.Population(model, optimizer, size=4)
mean = AveragedModel(model)

for epoch in range(EPOCHS):
    for candidate in population.candidates(1400):
        for batch in torch.from_numpy(candidate.indices).split(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    population.select(lambda cases: model(x[cases]).argmax(dim=1) != y[cases], 1400)
    if epoch >= EPOCHS - AVERAGED:
        mean.update_parameters(model)

update_bn(x[:1400].split(200), mean)  # statistics of the mean are not the mean of the statistics
for name, network in (("last parent", model.eval()), ("mean of parents", mean.eval())):
    print(f"{name}: test accuracy {(network(x[1400:]).argmax(dim=1) == y[1400:]).float().mean().item():.1%}")
