# %% [markdown]
# # What lexicase sees
#
# A first run, looked at from the inside: who was eliminated by which case, and how decided the selection really was.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import gradlex
from gradlex.selection import selection_probabilities

digits = load_digits()
x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

# %% [markdown]
# A recipe is every number of a run. Four candidates, twelve generations:

# %%
recipe = gradlex.Recipe(population=4, generations=12, batch_size=32, lr=0.1, seed=1, threads=1)
run = gradlex.train(net, (x[:1400], y[:1400]), recipe, test=(x[1400:], y[1400:]), progress=False)
print(f"test accuracy {run.test['accuracy']:.1%}")

# %% [markdown]
# ## How selection ended
#
# `survivors` lists each time that the pool shrank: after how many cases, and who was left.

# %%
for record in run.generations:
    steps = "  ".join(f"case {used}: {list(left)}" for used, left in record.survivors)
    print(f"{record.generation:2}  {record.reason:14} {record.cases_used:5} cases   {steps}")

# %% [markdown]
# Early on, a case or two decides. Later most selections end because all candidates left fail the same case, often before any was
# eliminated: the parent is then picked at random.
#
# ## What it would have chosen
#
# The choice was one draw. With the errors of all candidates on all cases, the exact chance of each follows. A callback can keep the networks;
# here we train four copies of the final network for a moment on four parts, by hand, and look at their table of errors.

# %%
rng = np.random.default_rng(0)
errors = []
for part in np.array_split(rng.permutation(1400), 4):
    copy = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    copy.load_state_dict(run.model.state_dict())
    optimizer = torch.optim.SGD(copy.parameters(), lr=0.1)
    for batch in np.array_split(part, 10):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(copy(x[batch]), y[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        errors.append((copy(x[:1400]).argmax(1) != y[:1400]).int().numpy())
errors = np.array(errors)  # (candidates, cases)

print("accuracy        ", (1 - errors.mean(axis=1)).round(4))
print("chance, paper   ", selection_probabilities(errors, on_all_fail="random").round(3))
print("chance, survive ", selection_probabilities(errors, on_all_fail="survive").round(3))

# %% [markdown]
# ## The cases that decide
#
# Only cases on which candidates differ can eliminate some and not others. These are few, and they are the hard ones:

# %%
split = (errors.min(axis=0) == 0) & (errors.max(axis=0) == 1)
failed = errors.all(axis=0)
print(f"{split.sum()} of {errors.shape[1]} cases tell the candidates apart; {failed.sum()} are failed by all")

# %%
chosen = np.flatnonzero(split)[:8]
figure, axes = plt.subplots(1, 8, figsize=(10, 1.7))
for axis, case in zip(axes, chosen, strict=False):
    axis.imshow(digits.images[case], cmap="gray_r")
    wrong = ", ".join(map(str, np.flatnonzero(errors[:, case])))
    axis.set_title(f"{y[case].item()}: {wrong} fail", fontsize=8)
for axis in axes:
    axis.set_axis_off()
figure.tight_layout()
