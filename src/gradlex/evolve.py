"""Algorithm 1 of Ding & Spector 2022, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gradlex.population import Cost, Diversity, Parent, deal
from gradlex.randomness import stream
from gradlex.recipe import Recipe
from gradlex.selection import CaseErrors, Choice, Indices, Selection


class Candidates(Protocol):
    """The trained candidates of one generation."""

    @property
    def losses(self) -> Sequence[float | None]: ...  # mean training loss of each; None where it diverged
    @property
    def errors(self) -> CaseErrors: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def diversity(self) -> Diversity: ...
    def promote(self, choice: Choice) -> Parent: ...


class Engine(Protocol):
    """Who computes: one process or many, on any device."""

    @property
    def num_samples(self) -> int: ...
    @property
    def num_cases(self) -> int: ...
    def train(self, parent: Parent, subsets: Sequence[Indices], lr: float) -> Candidates: ...


@dataclass(frozen=True)
class Generation:
    """What happened in one generation; `parent` is the parent of the next.

    Examples:
        >>> from dataclasses import fields
        >>> import gradlex
        >>> [field.name for field in fields(gradlex.Generation)]
        ['generation', 'parent', 'choice', 'losses', 'cost', 'diversity']
    """

    generation: int
    parent: Parent
    choice: Choice
    losses: Sequence[float | None]
    cost: Cost
    diversity: Diversity


def evolve(parent: Parent, engine: Engine, select: Selection, recipe: Recipe) -> Iterator[Generation]:
    """Gradient Lexicase Selection (Ding & Spector 2022, Algorithm 1).

    Yields each generation; the caller evaluates, logs and saves.
    Starting again from any yielded parent continues the same run.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> from gradlex.engine import PopulationEngine, Worker
        >>> recipe = gradlex.Recipe(population=2, momentum="reset", generations=2, batch_size=8, threads=1)
        >>> samples = gradlex.data.ArraySamples(torch.randn(32, 4), torch.arange(32) % 2)
        >>> task = gradlex.tasks.Classification()
        >>> worker = Worker(torch.nn.Linear(4, 2), samples, task, recipe, torch.device("cpu"))
        >>> parent, engine = worker.first_parent(), PopulationEngine(worker)
        >>> for generation in gradlex.evolve(parent, engine, gradlex.selection.lexicase, recipe):
        ...     print(generation.generation, len(generation.losses), generation.parent.generation)
        0 2 1
        1 2 2
    """
    for generation in range(parent.generation, recipe.require("generations")):
        # Mutation: SubGD on p disjoint subsets that together hold every sample once.
        subsets = deal(engine.num_samples, recipe, generation)
        candidates = engine.train(parent, subsets, lr=recipe.lr_at(generation))

        # Selection: a fresh order of un-augmented training cases.
        cases = stream(recipe.seed, "cases", generation).permutation(engine.num_cases)
        choice = select(cases, candidates.errors, stream(recipe.seed, "choice", generation))

        parent = candidates.promote(choice)
        yield Generation(generation, parent, choice, candidates.losses, candidates.cost, candidates.diversity)
