"""PopulationEngine: trains a generation's candidates and answers selection's questions about them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gradlex.engine._promotion import promoted
from gradlex.engine._team import Alone, Team
from gradlex.engine._told import told
from gradlex.engine._worker import Candidate, Worker
from gradlex.errors import RunError
from gradlex.population import Cost, Parent
from gradlex.selection import Choice, ErrorTable, Indices


class PopulationEngine:
    """The engine that Algorithm 1 asks: one worker, alone or in a team."""

    def __init__(self, worker: Worker, team: Team | None = None) -> None:
        self.worker = worker
        self.team: Team = team or Alone()

    @property
    def num_samples(self) -> int:
        """Training samples, of which each generation uses every one once."""
        return len(self.worker.samples)

    @property
    def num_cases(self) -> int:
        """Cases for selection: the same samples, clean."""
        return len(self.worker.samples)

    def train(self, parent: Parent, subsets: Sequence[Indices], lr: float) -> TrainedCandidates:
        """Train a copy of the parent on each subset; those that diverge are out of the pool."""
        started = time.perf_counter()
        own = {
            index: self.worker.train(parent, index, subsets[index], lr)
            for index in self.team.mine(len(subsets))
        }
        first = self.worker.parallel is None or self.worker.parallel.rank == 0  # a group speaks once
        rows = {
            index: np.array([math.nan if c.loss is None else c.loss], dtype=np.float32)
            for index, c in own.items()
            if first
        }
        shared = self.team.share(rows, np.arange(len(subsets)), 1)[:, 0].tolist()
        losses = tuple(None if math.isnan(loss) else float(loss) for loss in shared)
        if all(loss is None for loss in losses):
            outer = ", outer_lr or outer_momentum" if self.worker.recipe.has_outer_step else ""
            raise RunError(
                f"every candidate of generation {parent.generation} diverged (a loss, weight or batch statistic that "
                f"is not finite) at the rate {lr:g}: train with a smaller lr{outer}."
            )
        return TrainedCandidates(self, parent, own, losses, time.perf_counter() - started)


class TrainedCandidates:
    """One generation's candidates; its `errors` evaluate a case only when it is asked for."""

    def __init__(
        self,
        engine: PopulationEngine,
        parent: Parent,
        own: dict[int, Candidate],
        losses: tuple[float | None, ...],
        seconds: float,
    ) -> None:
        self._engine, self._own, self._parent = engine, own, parent
        self._seconds = seconds
        self.losses = losses
        self.errors = LazyErrors(engine, parent, own, losses)

    @property
    def cost(self) -> Cost:
        """What training and selection have taken so far."""
        return Cost(
            cases_evaluated=self.errors.evaluated,
            train_seconds=self._seconds,
            select_seconds=self.errors.seconds,
        )

    def promote(self, choice: Choice) -> Parent:
        """What the choice makes the next generation's parent; the others are let go to free their memory."""
        parent = promoted(choice, self._own, self._parent, self._engine.worker, self._engine.team)
        self._own.clear()
        del self._parent  # these candidates are still referred to while the next ones train
        return parent


class LazyErrors:
    """CaseErrors of networks: every process evaluates its own candidates, all see the same table."""

    def __init__(
        self,
        engine: PopulationEngine,
        parent: Parent,
        own: Mapping[int, Candidate],
        losses: Sequence[float | None],
    ) -> None:
        self._engine, self._own, self._generation = engine, own, parent.generation
        self.candidates: Indices = np.flatnonzero([loss is not None for loss in losses])
        self.memory: Mapping[str, npt.NDArray[np.generic]] = parent.memory
        self.evaluated = 0
        self.seconds = 0.0

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """Evaluate some candidates on some cases: (pool, cases)."""
        started = time.perf_counter()
        asked = [index for index in pool.tolist() if index in self._own]
        states = [self._own[index].state for index in asked]
        with told(f"asking candidates {asked} of generation {self._generation} about cases"):
            table: Iterable[npt.NDArray[np.float32]] = (
                self._engine.worker.errors(states, cases) if asked else ()
            )
        shared = self._engine.team.share(dict(zip(asked, table, strict=True)), pool, len(cases))
        self.evaluated += len(pool) * len(cases)
        self.seconds += time.perf_counter() - started
        return shared

    def matrix(self) -> ErrorTable:
        """Every candidate on every case, in the data's order."""
        return self(np.arange(self._engine.num_cases), self.candidates)
