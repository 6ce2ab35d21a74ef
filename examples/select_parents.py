"""Selection without networks: parents for genetic programming from a table of errors, and their exact chances."""

import numpy as np
from gradlex.selection import select_parents, selection_probabilities

errors = np.array(
    [
        [0, 0, 1, 1],  # solves the first two cases
        [1, 1, 0, 0],  # solves the other two
        [0, 1, 0, 1],  # a compromise between both
    ]
)
parents = select_parents(errors, 1000, method="lexicase", rng=0)
print("drawn:", np.bincount(parents, minlength=3) / len(parents))
print("exact:", selection_probabilities(errors, method="lexicase").round(3))
