"""Training loops of a caller's own, which processes of a pool can import."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel

X = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] * X[:, 1] > 0).long()
TRAIN = 60


def network(hidden: int = 6) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))


def one_epoch(population, model, optimizer):
    for candidate in population.candidates(TRAIN):
        for batch in torch.from_numpy(candidate.indices).split(5):
            optimizer.zero_grad()
            F.cross_entropy(model(X[batch]), Y[batch]).backward()
            optimizer.step()
    population.select(lambda cases: model(X[cases]).argmax(dim=1) != Y[cases], TRAIN)


def accuracy(model, part=slice(TRAIN, None)):
    return float((model(X[part]).argmax(dim=1) == Y[part]).float().mean())


def experiment(method, seed, hidden=6):
    model = network(hidden)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    population = method.population(model, optimizer)
    while population.generation < method.epochs:
        one_epoch(population, model, optimizer)
    on_train = accuracy(model, slice(TRAIN))
    return {"accuracy": accuracy(model), "train_accuracy": on_train, "threads": torch.get_num_threads()}


def wider(method, seed):
    return experiment(method, seed, hidden=8)


def narrow_for_sgd(method, seed):
    return experiment(method, seed, hidden=4 if method.name == "sgd" else 6)


def other_weights(method, seed):
    torch.manual_seed(os.getpid() + hash(method.name))
    return experiment(method, seed)


def with_checkpoint(method, seed, crash_after=None):
    """Goes on from its checkpoint; dies in the middle if it is asked to."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    population = method.population(model, optimizer)
    checkpoint = Path(method.folder) / "checkpoint.pt"
    if checkpoint.exists():
        population.load_state_dict(torch.load(checkpoint, weights_only=True))
    while population.generation < method.epochs:
        one_epoch(population, model, optimizer)
        torch.save(population.state_dict(), checkpoint)
        if population.generation == crash_after:
            os._exit(9)
    return accuracy(model)


def dies(method, seed):
    return with_checkpoint(method, seed, crash_after=2)


def fails_for_lexicase(method, seed):
    if method.name == "lexicase":
        raise ZeroDivisionError("the learning rate was 0")
    return experiment(method, seed)


def makes_no_population(method, seed):
    return 0.5


def diverges(method, seed):
    experiment(method, seed)
    return float("nan")


def own_parts(method, seed):
    model = network()
    population = method.population(model)
    while population.generation < method.epochs:
        for _ in population.candidates(parts=np.arange(TRAIN).reshape(method.size, -1)):
            pass
        population.select(lambda cases: model(X[cases]).argmax(dim=1) != Y[cases], TRAIN)
    return accuracy(model)


def mean_of_parents(method, seed):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    population, mean = method.population(model, optimizer), AveragedModel(model)
    while population.generation < method.epochs:
        one_epoch(population, model, optimizer)
        if method.branch is not None and population.generation > method.branch:
            mean.update_parameters(model)
    return accuracy(model if method.branch is None else mean)


def two_epochs(method, seed):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = method.population(model, optimizer)
    for _ in range(2):
        one_epoch(population, model, optimizer)
    return accuracy(model)


def only_a_loss(method, seed):
    experiment(method, seed)
    return {"loss": 0.5}
