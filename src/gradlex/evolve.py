"""Algorithm 1 of Ding & Spector 2022, and nothing else."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gradlex.population import Candidate, Population
from gradlex.selection import Choice


@dataclass(frozen=True, kw_only=True)
class Generation:
    """What happened in one generation.

    Examples:
        >>> from dataclasses import fields
        >>> import gradlex
        >>> [field.name for field in fields(gradlex.Generation)]
        ['number', 'choice', 'losses', 'train_seconds', 'select_seconds']
    """

    number: int
    """The first generation is 1."""
    choice: Choice
    losses: tuple[float | None, ...]
    """The mean training loss of each candidate; None where it diverged."""
    train_seconds: float
    select_seconds: float


def evolve(
    population: Population,
    train: Callable[[Candidate], float],
    errors: Callable[..., object],
    *,
    num_samples: int,
    num_cases: int,
    epochs: int,
    size: Callable[[int], int] | None = None,
) -> Iterator[Generation]:
    """Gradient lexicase selection (Ding & Spector 2022, Algorithm 1).

    Yields each generation; the caller evaluates, logs and saves. It continues from the population's generation.

    Args:
        population: Holds the model, the optimizer and the selection.
        train: Trains the candidate that the model holds on `candidate.indices`, and returns its mean loss.
        errors: The error of the model on each of these cases.
        num_samples: How many training samples there are.
        num_cases: How many cases selection can look at.
        epochs: How many generations there are in all.
        size: The number of candidates of a generation (default: the population's).

    Examples:
        >>> import torch
        >>> import gradlex
        >>> model, x = torch.nn.Linear(1, 1), torch.ones(8, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> def train(candidate):
        ...     optimizer.zero_grad()
        ...     loss = model(x[candidate.indices]).square().mean()
        ...     loss.backward()
        ...     optimizer.step()
        ...     return loss.item()
        >>> population = gradlex.Population(model, optimizer, size=2, selection="epsilon-lexicase")
        >>> errors = lambda cases: model(x[cases]).abs().flatten()
        >>> for generation in gradlex.evolve(population, train, errors, num_samples=8, num_cases=8, epochs=2):
        ...     print(generation.number, len(generation.losses))
        1 2
        2 2
    """
    while population.generation < epochs:
        started = time.perf_counter()
        # Mutation: SubGD on p disjoint parts that together hold every sample once.
        trained = {}
        for candidate in population.candidates(num_samples, size and size(population.generation)):
            loss = train(candidate)
            if not math.isfinite(loss):
                candidate.discard()
            trained[candidate] = loss
        own = {c.index: math.nan if c.discarded else loss for c, loss in trained.items()}
        losses = tuple(None if math.isnan(loss) else loss for loss in population.gather(own).values())
        middle = time.perf_counter()

        # Selection: a fresh order of un-augmented training cases; the survivor is the next parent.
        choice = population.select(errors, num_cases)

        yield Generation(
            number=population.generation,
            choice=choice,
            losses=losses,
            train_seconds=middle - started,
            select_seconds=time.perf_counter() - middle,
        )
