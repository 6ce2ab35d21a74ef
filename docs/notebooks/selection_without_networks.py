# %% [markdown]
# # Selection without networks
#
# Lexicase selection works on any table of errors: programs and their test cases, prompts and their questions, models and the groups they should
# be fair to. No network, and no torch.

# %%
import numpy as np

from gradlex.selection import SELECTIONS, select_parents, selection_probabilities

errors = np.array(  # (individuals, cases); lower is better, 0 is solved
    [
        [0, 0, 0, 0, 1, 1],
        [0, 0, 0, 1, 0, 1],
        [1, 1, 1, 1, 0, 0],
        [1, 0, 0, 1, 1, 1],
    ]
)
print(select_parents(errors, k=10, method="lexicase", rng=0))

# %% [markdown]
# The third individual solves two cases of six, but one that nobody else solves. By the mean error it would never be chosen; by lexicase it is,
# in a fifth of all orders. That chance is exact, not counted:

# %%
chances = selection_probabilities(errors, on_all_fail="survive")
counted = np.bincount(select_parents(errors, k=20_000, rng=1), minlength=4) / 20_000
print("exact  ", chances.round(3))
print("counted", counted.round(3))

# %% [markdown]
# ## Graded errors
#
# With errors that are no longer 0 and 1, being best by a hair eliminates everyone else. Epsilon-lexicase forgives small differences:

# %%
rng = np.random.default_rng(0)
graded = rng.gamma(2.0, size=(6, 40))
graded[0] = graded[1:].min(axis=0) * 1.01  # nearly as good as the best one everywhere, and the best nowhere
for method in ("lexicase", "epsilon-lexicase"):
    share = np.bincount(select_parents(graded, k=2000, method=method, rng=2), minlength=6) / 2000
    print(f"{method:17} {share.round(3)}")

# %% [markdown]
# ## All methods
#
# Every method takes the same table. Options are those of training (`gradlex selections` lists them).

# %%
for name in SELECTIONS:
    if name != "sgd":  # which selects nobody
        share = np.bincount(select_parents(errors, k=2000, method=name, rng=3), minlength=4) / 2000
        print(f"{name:30} {share.round(2)}")
