"""Symbolic regression with DEAP, parents by gradlex: one registered function, each sample a case.

pip install 'gradlex[integrations]'
python examples/deap_symbolic_regression.py
"""

import operator
import random

import numpy as np
from deap import algorithms, base, creator, gp, tools
from gradlex.integrations import deap as lexicase

X = np.linspace(-1, 1, 30)
Y = X**4 + X**3 + X**2 + X  # Koza 1992

primitives = gp.PrimitiveSet("main", 1)
for function, arity in ((operator.add, 2), (operator.sub, 2), (operator.mul, 2), (operator.neg, 1)):
    primitives.addPrimitive(function, arity)
primitives.renameArguments(ARG0="x")

creator.create("Errors", base.Fitness, weights=(-1.0,) * len(X))
creator.create("Tree", gp.PrimitiveTree, fitness=creator.Errors)

toolbox = base.Toolbox()
toolbox.register("tree", gp.genHalfAndHalf, pset=primitives, min_=1, max_=3)
toolbox.register("individual", tools.initIterate, creator.Tree, toolbox.tree)
toolbox.register("population", tools.initRepeat, list, toolbox.individual)
toolbox.register("evaluate", lambda tree: tuple(np.abs(gp.compile(tree, primitives)(X) - Y) * np.ones(len(X))))
toolbox.register("select", lexicase.select, method="epsilon-lexicase", rng=np.random.default_rng(0))
toolbox.register("mate", gp.cxOnePoint)
toolbox.register("grow", gp.genFull, min_=0, max_=2)
toolbox.register("mutate", gp.mutUniform, expr=toolbox.grow, pset=primitives)
for name in ("mate", "mutate"):
    toolbox.decorate(name, gp.staticLimit(key=operator.attrgetter("height"), max_value=8))

random.seed(4)
population = toolbox.population(n=150)
for generation in range(30):
    for tree in population:
        tree.fitness.values = toolbox.evaluate(tree)
    best = min(population, key=lambda tree: sum(tree.fitness.values))
    error = sum(best.fitness.values) / len(X)
    if generation % 5 == 0 or error < 1e-9:
        print(f"generation {generation:2}: mean error {error:.2e}")
    if error < 1e-9:
        break
    parents = list(map(toolbox.clone, toolbox.select(population, len(population))))
    population = algorithms.varAnd(parents, toolbox, cxpb=0.8, mutpb=0.2)
print(f"found: {best}")
