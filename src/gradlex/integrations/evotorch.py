"""EvoTorch: `operators=[LexicaseSelection(problem), OnePointCrossOver(problem, tournament_size=1), ...]`.

The first operator chooses the parents, and a tournament of one then pairs them at random. The objectives are the cases,
each in its own sense, or the problem's evaluation data, such as the errors of single samples (`of="eval_data"`): then
few objectives decide who survives while parents are chosen by many cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from evotorch.operators import CopyingOperator

from gradlex._checks import check
from gradlex.errors import InputError
from gradlex.selection import Cases, Choice, select_parents


class LexicaseSelection(CopyingOperator):  # type: ignore[misc]  # evotorch has no types
    """Parents by any method of gradlex.

    Args:
        problem: The problem that is worked on.
        method: A name of `gradlex.selection.SELECTIONS`, or a strategy.
        of: What the cases are; of evaluation data lower is better unless `cases` says otherwise.
        num_parents: How many parents to choose; as many as there are solutions if None.
        rng: A generator, or None to follow the problem's own seed.
        cases: What the cases are: groups, weights, maximize, ...
        options: Of the method.

    Examples:
        >>> import torch
        >>> from evotorch import Problem
        >>> from evotorch.algorithms import GeneticAlgorithm
        >>> from evotorch.operators import OnePointCrossOver
        >>> from gradlex.integrations.evotorch import LexicaseSelection
        >>> def fit(x):  # two objectives, which are the cases
        ...     return torch.stack([(x - 1).abs().mean(dim=1), (x + 1).abs().mean(dim=1)], dim=1)
        >>> problem = Problem(["min", "min"], fit, solution_length=3, initial_bounds=(-1, 1), vectorized=True, seed=0)
        >>> operators = [LexicaseSelection(problem), OnePointCrossOver(problem, tournament_size=1)]
        >>> search = GeneticAlgorithm(problem, operators=operators, popsize=10)
        >>> search.run(2)
        >>> len(search.population)
        10
    """

    def __init__(
        self,
        problem: Any,
        method: str | Callable[..., Choice] = "lexicase",
        *,
        of: Literal["objectives", "eval_data"] = "objectives",
        num_parents: int | None = None,
        rng: np.random.Generator | None = None,
        cases: Cases | None = None,
        **options: Any,
    ) -> None:
        super().__init__(problem)
        check("of", Literal["objectives", "eval_data"], of)
        if of == "eval_data" and problem.eval_data_length == 0:
            raise InputError(
                "the problem has no evaluation data: give it eval_data_length, or of='objectives'."
            )
        self.method, self.of, self.num_parents, self.rng = method, of, num_parents, rng
        self.cases, self.options = cases, options

    def _do(self, batch: Any) -> Any:
        """The batch of the parents."""
        senses = self.problem.senses
        evals = batch.evals
        if evals[:, : len(senses)].isnan().any():
            raise InputError(
                "a solution was not evaluated: selection comes first among the operators, and a GeneticAlgorithm "
                "without a cross-over needs re_evaluate_parents_first=True."
            )
        if self.of == "eval_data":
            errors = evals[:, len(senses) :]
        else:
            signs = evals.new_tensor([1.0 if sense == "min" else -1.0 for sense in senses])
            errors = evals[:, : len(senses)] * signs
        count = len(batch) if self.num_parents is None else self.num_parents
        stream = self.rng
        if stream is None:
            drawn = self.problem.make_randint(2, n=1 << 31, dtype=torch.int64)
            stream = np.random.default_rng(drawn.tolist())
        chosen = select_parents(errors, count, self.method, stream, cases=self.cases, **self.options)
        return batch.take(chosen.tolist())
