# %% [markdown]
# # Tutorial: does selection matter here?
#
# In 15 minutes: put selection into a training loop, look at what it decides, compute the chances of each candidate, and find out with
# a comparison whether any of it helps. Everything runs on one CPU core in about a minute.
#
# Selection can matter only where candidates differ. So we take data on which they do: handwritten digits with a fifth of the labels
# wrong, and a learning rate that stays high.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import gradlex
from gradlex.experiments import Method
from gradlex.selection import selection_probabilities

torch.set_num_threads(1)  # more don't help a network this small
rng = np.random.default_rng(0)
x, y = load_digits(return_X_y=True)
order = rng.permutation(len(y))
x, y = torch.tensor(x[order], dtype=torch.float32) / 16, torch.tensor(y[order])
x, x_test, y, y_test = x[:1000], x[1000:], y[:1000], y[1000:]
damaged = torch.from_numpy(rng.random(1000) < 0.2)
labels = torch.where(damaged, torch.from_numpy(rng.integers(0, 10, 1000)), y)  # what training and selection see


# %% [markdown]
# ## A loop with a population
#
# An ordinary training loop, and around it `candidates` and `select`. After `select` the model holds the winner.


# %%
def make(lr):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    return model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def train(model, optimizer, indices):
    for batch in torch.from_numpy(indices).split(20):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[batch]), labels[batch]).backward()
        optimizer.step()


def accuracy(model):
    with torch.no_grad():
        return (model(x_test).argmax(dim=1) == y_test).double().mean().item()


torch.manual_seed(0)
model, optimizer = make(lr=0.1)
population = gradlex.Population(model, optimizer, size=4, selection="lexicase")
for epoch in range(10):
    for candidate in population.candidates(1000):
        train(model, optimizer, candidate.indices)
    choice = population.select(lambda cases: model(x[cases]).argmax(dim=1) != labels[cases], 1000)
    print(f"{epoch}: {choice.reason:14} after {choice.cases_used:3} cases, test accuracy {accuracy(model):.1%}")

# %% [markdown]
# ## What did selection look at?
#
# Hardly anything. A few cases, then all remaining candidates fail one, often because its label is wrong, and one of them is picked at
# random. Let's train four more candidates and look at all of their errors.

# %%
errors, on_test = [], []
for candidate in population.candidates(1000):
    train(model, optimizer, candidate.indices)
    with torch.no_grad():
        errors.append((model(x).argmax(dim=1) != labels).numpy())
    on_test.append(accuracy(model))
population.restore()  # the model holds the parent again

errors = np.array(errors, dtype=int)  # (candidates, cases)
paper = selection_probabilities(errors, "lexicase")
classic = selection_probabilities(errors, "lexicase", on_all_fail="survive")
by_mean = selection_probabilities(errors, "tournament")
print("candidate   training errors   test accuracy   lexicase   survive   tournament")
for row in zip(range(4), errors.sum(axis=1), on_test, paper, classic, by_mean, strict=True):
    print("{:9}   {:15}   {:13.1%}   {:8.0%}   {:7.0%}   {:10.0%}".format(*row))
hopeless = errors.all(axis=0)
print(
    f"\nAll four fail {hopeless.mean():.0%} of the cases; {damaged[hopeless].float().mean():.0%} of these have a wrong label."
)

# %% [markdown]
# The chances are exact: the share of all orders of cases in which a candidate wins. Lexicase spreads them over good and bad
# candidates, because a single case says little about a candidate where labels are wrong. The mean over all cases finds the best one.
#
# ## Which cases decide?
#
# Cases on which the candidates differ. Here are some, with the label that training sees; the red ones are wrong.

# %%
split = np.flatnonzero(errors.any(axis=0) & ~errors.all(axis=0))
figure, axes = plt.subplots(1, 8, figsize=(8, 1.5))
for ax, case in zip(axes, split, strict=False):
    ax.imshow(x[case].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{labels[case].item()}", color="crimson" if damaged[case] else "gray", fontsize=10)
for ax in axes:
    ax.set_axis_off()
print(f"The candidates differ on {len(split)} of 1,000 cases.")

# %% [markdown]
# ## Does it help?
#
# One run proves nothing. `gradlex.compare` calls a function for each method and seed; `method` makes the population and knows the number
# of epochs. We report the mean test accuracy of the last ten parents, which scatters less than the last one alone.
#
# To the built-in methods we add one: batch lexicase, whose cases are means over 100 samples, halfway between a single case and
# the mean of all.


# %%
def experiment(method, seed, anneal=False):
    torch.manual_seed(seed)
    model, optimizer = make(lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, method.epochs) if anneal else None
    population = method.population(model, optimizer)
    late = []
    for _ in range(method.epochs):
        for candidate in population.candidates(1000):
            train(model, optimizer, candidate.indices)
        population.select(lambda cases: model(x[cases]).argmax(dim=1) != labels[cases], 1000)
        if schedule:
            schedule.step()
        late.append(accuracy(model))
    return late[-1] if anneal else np.mean(late[-10:])


batch = Method(name="batch", title="batch lexicase", changes={"selection": "batch-lexicase(batch_size=100)"})
methods = ["sgd-matched", "random", "lexicase", batch, "tournament"]
pairs = [("lexicase", "random"), ("batch", "random"), ("tournament", "random")]
options = {"epochs": 6, "seeds": range(8), "backend": "serial", "progress": False}
found = gradlex.compare(experiment, methods=methods, pairs=pairs, **options)
print(found.verdict)
print()
print(found.table().text())

# %% [markdown]
# Selection matters here: choosing by the mean of all cases beats choosing at random. Choosing by single cases doesn't, and batches of
# cases lie between the two. The few cases used and the exact chances already showed this.
#
# ## Is it worth it?
#
# Candidates differ so much because the learning rate stays high. What if it falls to 0? Now the final network counts.


# %%
def annealed(method, seed):
    return experiment(method, seed, anneal=True)


pairs = [("tournament", "sgd"), ("tournament", "sgd-matched")]
found = gradlex.compare(annealed, methods=["sgd", "sgd-matched", "tournament"], pairs=pairs, **options)
print(found.verdict)
print()
print(found.table().text())

# %% [markdown]
# Annealing improves SGD more than selection did, at a fraction of the cost. Against SGD on as many samples the population wins:
# training for long fits the wrong labels, and the line of winners makes only a quarter of the steps. So what you conclude depends on the
# baseline. Show both, the cheap one and the one on as many samples, before you credit selection.
#
# Next: [your own loop](../../own-loop/), [compare](../../compare/), [select by cases](../../select-by-cases/).
