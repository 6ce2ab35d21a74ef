"""A linear classifier evolved with PyGAD, parents by gradlex: each sample is a case, solved or not.

pip install 'gradlex[integrations]'
python examples/pygad_classifier.py
"""

import numpy as np
import pygad
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from gradlex.integrations.pygad import parent_selection

x, y = load_iris(return_X_y=True)
x = np.column_stack([scale(x), np.ones(len(x))])  # the last weight of a class is its threshold


def solved(ga, solution, index):
    """One number for each flower: 1 where the class with the highest output is its own."""
    outputs = x @ solution.reshape(3, x.shape[1]).T
    return (outputs.argmax(axis=1) == y).astype(float).tolist()


ga = pygad.GA(
    num_generations=30,
    sol_per_pop=40,
    num_parents_mating=20,
    num_genes=3 * x.shape[1],
    fitness_func=solved,
    parent_selection_type=parent_selection(rng=0),
    mutation_num_genes=2,
    keep_elitism=0,
    random_seed=0,
    suppress_warnings=True,
)
print(f"the best of the first generation solves {max(map(sum, ga.cal_pop_fitness())):.0f} of {len(y)}")
ga.run()
print(f"the best of the last generation solves {max(map(sum, ga.cal_pop_fitness())):.0f}")
