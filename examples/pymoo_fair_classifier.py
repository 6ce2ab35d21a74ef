"""A fair classifier with pymoo: parents chosen by groups, so that the small group is not forgotten.

One person in ten belongs to a small group, for whom the first feature misleads. A genetic algorithm that minimizes the
mean error learns to rely on it. NSGA-II with an objective per group, and parents chosen by lexicase selection over the
groups, finds weights that serve both.

    pip install 'gradlex[integrations]'
    python examples/pymoo_fair_classifier.py
"""

import numpy as np
from gradlex.integrations.pymoo import LexicaseSelection
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.core.problem import Problem
from pymoo.optimize import minimize

SIGNALS = np.array([[2.0, 0.7], [-1.0, 2.0]])  # what the two features say of the label, by group


def people(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    group, label = (rng.random(count) < 0.1).astype(int), rng.integers(0, 2, count)
    return rng.normal(size=(count, 2)) + SIGNALS[group] * (2 * label - 1)[:, None], label, group


class Classifier(Problem):
    """Two weights and a bias; an objective is the error of one group."""

    def __init__(self, x: np.ndarray, label: np.ndarray, parts: list[np.ndarray]) -> None:
        super().__init__(n_var=3, n_obj=len(parts), xl=-3.0, xu=3.0)
        self.x, self.label, self.parts = x, label, parts

    def _evaluate(self, weights: np.ndarray, out: dict, *args: object, **kwargs: object) -> None:
        answers = weights[:, :2] @ self.x.T + weights[:, 2:] > 0
        wrong = answers != self.label
        out["F"] = np.stack([wrong[:, part].mean(axis=1) for part in self.parts], axis=1)


rng = np.random.default_rng(0)
x, label, group = people(600, rng)
x_new, label_new, group_new = people(4_000, rng)
for name, algorithm, parts in (
    ("GA, mean error", GA(pop_size=60), [group >= 0]),
    ("NSGA-II, lexicase by groups", NSGA2(pop_size=60, selection=LexicaseSelection()), [group == 0, group == 1]),
):
    found = minimize(Classifier(x, label, parts), algorithm, ("n_gen", 25), seed=1)
    weights = np.atleast_2d(found.X)[np.atleast_2d(found.F).max(axis=1).argmin()]
    right = (x_new @ weights[:2] + weights[2] > 0) == label_new
    shares = [right[group_new == each].mean() for each in (0, 1)]
    print(f"{name:28} accuracy {right.mean():.1%}, large group {shares[0]:.1%}, small group {shares[1]:.1%}")
