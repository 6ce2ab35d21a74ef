# %% [markdown]
# # Compare on your own data
#
# Does it help on your data? This notebook brings data of one's own, here the wine dataset of scikit-learn, to the same loop with several
# methods, at equal samples and with several seeds. `gradlex compare` does all of this in one command, with ten methods and a report.

# %%
import numpy as np
import torch
from scipy import stats
from sklearn.datasets import load_wine

import gradlex

wine = load_wine()
order = np.random.default_rng(0).permutation(len(wine.target))
x = torch.tensor((wine.data - wine.data.mean(0)) / wine.data.std(0), dtype=torch.float32)[order]
y = torch.tensor(wine.target)[order]
train, test = (x[:120], y[:120]), (x[120:], y[120:])


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(13, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


# %% [markdown]
# Equal samples: a generation is one pass over the training samples, whatever the population. So equal generations are equal samples. SGD is
# the same loop with a population of one, and random selection shows what the population does without selection.

# %%
METHODS = ("sgd", "random", "lexicase")
SEEDS = range(3)
found = {method: [] for method in METHODS}
for method in METHODS:
    for seed in SEEDS:
        recipe = gradlex.Recipe(selection=method, generations=8, batch_size=8, lr=0.05, seed=seed, threads=1)
        run = gradlex.train(network(seed), train, recipe, test=test, progress=False)
        found[method].append(run.test["accuracy"])
    print(f"{method:9} {np.mean(found[method]):.1%}  seeds {[f'{value:.1%}' for value in found[method]]}")

# %% [markdown]
# Runs of one seed start from the same weights, so differences are paired by seed. With three seeds only a large difference is significant;
# an interval that includes 0 means that these seeds cannot tell.

# %%
for method in METHODS[1:]:
    difference = np.subtract(found[method], found["sgd"])
    half = stats.t.ppf(0.975, len(difference) - 1) * stats.sem(difference)
    mean = difference.mean()
    print(f"{method:9} less sgd: {mean:+.1%}, 95 % interval {mean - half:+.1%} to {mean + half:+.1%}")

# %% [markdown]
# The same from the command line, with baselines at equal samples, a stronger weight decay, means of candidates, tables and plots:
#
#     gradlex compare --dataset mine.npz --model mlp --seeds 3
