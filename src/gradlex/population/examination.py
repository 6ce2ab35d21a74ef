"""Examination: the errors of one generation's candidates, computed only when selection asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gradlex.errors import InputError
from gradlex.population.state import Network, Snapshot
from gradlex.population.team import Team
from gradlex.seeding import reseed
from gradlex.selection.protocol import Floats, Indices, as_numbers, slices

ErrorFunction: TypeAlias = Callable[[Indices], Any]
"""From case numbers to the present model's error on each of these cases: a tensor, array or list of numbers."""


class Examination:
    """The `CaseErrors` of networks: every process evaluates its own candidates, and all see the same table."""

    def __init__(
        self,
        *,
        network: Network,
        team: Team,
        snapshots: Mapping[int, Snapshot],
        errors: ErrorFunction,
        candidates: Indices,
        num_cases: int,
        memory: Mapping[str, npt.NDArray[np.generic]],
    ) -> None:
        self.candidates, self.memory = candidates, memory
        self.evaluated = 0
        """How many pairs of candidate and case were computed."""
        self._network, self._team, self._snapshots = network, team, snapshots
        self._errors, self._num_cases = errors, num_cases
        self.binary = True
        """Whether all errors so far were 0 or 1, or not finite."""
        self._pairs, self._differing = 0, 0

    def __call__(self, cases: Indices, pool: Indices) -> Floats:
        """Evaluate some candidates on some cases: (pool, cases)."""
        wanted = pool.tolist()
        rows = {index: self._row(index, cases) for index in wanted if index in self._snapshots}
        table = self._team.share(rows, wanted, len(cases))
        self.evaluated += table.size
        self.binary = self.binary and bool(((table == 0) | (table == 1) | np.isinf(table)).all())
        solved = (table == 0).sum(axis=0)
        self._pairs += len(cases) * math.comb(len(wanted), 2)
        self._differing += int((solved * (len(wanted) - solved)).sum())
        return table

    def matrix(self) -> Floats:
        """Every candidate on every case, in the data's order: (candidates, cases)."""
        return self(np.arange(self._num_cases), self.candidates)

    @property
    def disagreement(self) -> float | None:
        """The share of pairs of candidates, case by case, of which one solves the case and the other doesn't."""
        return self._differing / self._pairs if self.binary and self._pairs else None

    def _row(self, index: int, cases: Indices) -> Floats:
        self._network.install(self._network.shielded(self._snapshots[index]))
        found = []
        for part in slices(cases, first=1024):  # some strategies want all cases at once, more than memory may hold
            # A network that draws random numbers even now draws the same ones for every candidate.
            reseed(int(part[0]), self._network.device)
            row = as_numbers(self._errors(part)).astype(np.float64)
            if row.shape != (len(part),):
                raise InputError(
                    f"errors(cases) must return one number for each of the {len(part)} cases, shape ({len(part)},), "
                    f"got shape {row.shape}: index inputs and labels with cases, and use reduction='none'."
                )
            found.append(np.where(np.isfinite(row), row, np.inf))
        return np.concatenate([[], *found])
