"""A small network evolved with EvoTorch, parents by gradlex: one operator, each sample a case.

pip install 'gradlex[evotorch]'
python examples/evotorch_classifier.py
"""

import sys

import torch
from sklearn.datasets import load_wine

try:
    from evotorch import Problem
    from evotorch.algorithms import GeneticAlgorithm
    from evotorch.operators import GaussianMutation, OnePointCrossOver
except ImportError:
    print("skipped: this example needs evotorch: pip install 'gradlex[evotorch]'")
    sys.exit()

from gradlex.integrations.evotorch import LexicaseSelection

wine = load_wine()
x, y = torch.tensor(wine.data, dtype=torch.float32), torch.tensor(wine.target)
x = (x - x.mean(0)) / x.std(0)
order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
train, test = order[:120], order[120:]
HIDDEN = 4
SHAPES = [(13, HIDDEN), (HIDDEN,), (HIDDEN, 3), (3,)]
SIZES = [torch.Size(shape).numel() for shape in SHAPES]


def logits(solutions, samples):
    """Of many networks at once: (solutions, samples, classes)."""
    parts = zip(solutions.split(SIZES, dim=1), SHAPES, strict=True)
    w1, b1, w2, b2 = (part.reshape(len(solutions), *shape) for part, shape in parts)
    hidden = torch.tanh(x[samples] @ w1 + b1[:, None])
    return hidden @ w2 + b2[:, None]


def evaluate(solutions):
    """The mean loss, and the losses of single samples as evaluation data."""
    losses = -logits(solutions, train).log_softmax(dim=2)[:, range(len(train)), y[train]]
    return losses.mean(dim=1), losses


evaluate.__evotorch_vectorized__ = True

problem = Problem(
    "min", evaluate, solution_length=sum(SIZES), initial_bounds=(-1, 1), eval_data_length=len(train), seed=1
)
search = GeneticAlgorithm(
    problem,
    popsize=200,
    operators=[
        LexicaseSelection(problem, "epsilon-lexicase", of="eval_data"),
        OnePointCrossOver(problem, tournament_size=1),
        GaussianMutation(problem, stdev=0.1),
    ],
)
for generation in range(1, 61):
    search.step()
    if generation % 20 == 0:
        best = search.status["pop_best"].values[None].clone()
        right = logits(best, test)[0].argmax(dim=1) == y[test]
        loss, accuracy = search.status["pop_best_eval"], right.float().mean().item()
        print(f"generation {generation}: loss {loss:.3f}, test accuracy {accuracy:.1%}")
