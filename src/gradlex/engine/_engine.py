"""PopulationEngine: trains a generation's candidates and answers selection's questions about them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gradlex.engine._recalibration import recalibrated
from gradlex.engine._stacked import train_stacked
from gradlex.engine._team import Serial, Team
from gradlex.engine._worker import EVALUATION_BATCH, Candidate, Worker
from gradlex.errors import RunError, failing_as
from gradlex.population import (
    SKETCH,
    WINNER,
    Cost,
    Diversity,
    Heritability,
    Parent,
    State,
    Steps,
    averaged,
    heritability,
    move_to_mean,
    pieces,
    weight_diversity,
    winner_slot,
)
from gradlex.selection import Choice, ErrorTable, Indices


class PopulationEngine:
    """The default engine: one worker, alone or in a team, and the steps that make the next parent.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> from gradlex.engine import PopulationEngine
        >>> class Half:  # train at half of the learning rate
        ...     def __init__(self, worker, team, steps):
        ...         self.inner = PopulationEngine(worker, team, steps)
        ...         self.num_samples, self.num_cases = self.inner.num_samples, self.inner.num_cases
        ...     def train(self, parent, subsets, lr):
        ...         return self.inner.train(parent, subsets, lr / 2)
        >>> data = torch.randn(60, 4), torch.arange(60) % 2
        >>> recipe = gradlex.Recipe(generations=1, batch_size=16)
        >>> run = gradlex.train(torch.nn.Linear(4, 2), data, recipe, engine=Half)
        >>> len(run.generations)
        1
    """

    def __init__(self, worker: Worker, team: Team | None = None, steps: Steps = ()) -> None:
        self.worker, self.steps = worker, steps
        self.team: Team = team or Serial()

    @property
    def num_samples(self) -> int:
        """Training samples; by default a generation uses each once."""
        return len(self.worker.samples)

    @property
    def num_cases(self) -> int:
        """Cases for selection: by default the same samples, clean."""
        return len(self.worker.cases)

    def train(self, parent: Parent, subsets: Sequence[Indices], lr: float) -> TrainedCandidates:
        """Train a copy of the parent on each subset; those that diverge are out of the pool."""
        started = time.perf_counter()
        mine = self.team.mine(len(subsets))
        if self.worker.stacked and len(mine) > 1:
            own = train_stacked(self.worker, parent, mine, subsets, lr)
        else:
            own = {index: self.worker.train(parent, index, subsets[index], lr) for index in mine}
        first = self.worker.parallel is None or self.worker.parallel.rank == 0  # a group speaks once
        rows = {index: _row(candidate) for index, candidate in own.items() if first}
        shared = self.team.share(rows, np.arange(len(subsets)), 2 + SKETCH)
        losses = tuple(None if math.isnan(loss) else float(loss) for loss in shared[:, 0])
        if all(loss is None for loss in losses):
            outer = ", outer_lr or outer_momentum" if self.worker.recipe.has_outer_step else ""
            raise RunError(
                f"every candidate of generation {parent.generation} diverged (a loss, weight or batch statistic that "
                f"is not finite) at the learning rate {lr:g}: train with a smaller lr{outer}."
            )
        movements = shared[[loss is not None for loss in losses], 1:]
        return TrainedCandidates(self, parent, own, losses, movements, time.perf_counter() - started)


def _row(candidate: Candidate) -> npt.NDArray[np.float32]:
    """What all processes learn of a candidate: its loss, NaN where it diverged, and its sketch."""
    loss = math.nan if candidate.loss is None else candidate.loss
    most = float(np.finfo(np.float32).max)  # a network in float64 may be worse, and has not diverged
    return np.concatenate(
        [np.array([loss], dtype=np.float64).clip(-most, most).astype(np.float32), candidate.sketch]
    )


class TrainedCandidates:
    """One generation's candidates; its `errors` evaluate cases lazily."""

    def __init__(
        self,
        engine: PopulationEngine,
        parent: Parent,
        own: dict[int, Candidate],
        losses: tuple[float | None, ...],
        movements: npt.NDArray[np.float32],
        seconds: float,
    ) -> None:
        self._engine, self._own, self._parent = engine, own, parent
        self._movements, self._seconds = movements, seconds
        self.losses = losses
        self.weights: Mapping[int, float] = {}
        self.errors = LazyErrors(engine, parent, own, losses)
        self._heritability: Heritability | None = None

    @property
    def cost(self) -> Cost:
        """What training and selection have taken so far."""
        return Cost(
            cases_evaluated=self.errors.evaluated,
            train_seconds=self._seconds,
            select_seconds=self.errors.seconds,
        )

    @property
    def diversity(self) -> Diversity:
        """How different the candidates are, as far as selection has looked."""
        movement, spread = weight_diversity(self._movements)
        return Diversity(
            movement=movement,
            spread=spread,
            disagreement=self.errors.disagreement,
            heritability=self._heritability,
        )

    def promote(self, choice: Choice) -> Parent:
        """What the choice makes the next generation's parent; the others are let go to free their memory."""
        team, before = self._engine.team, self._parent
        if WINNER in before.slots:
            self._heritability = heritability(before.slots[WINNER], self.errors.again(before.slots[WINNER]))
        winner = None if choice.weights else self.errors.winner(choice)
        chosen = team.hand_over(choice.index, self._own)
        self.weights = choice.shares
        self._average(chosen, choice)
        parent = Parent(
            generation=before.generation + 1,
            state=chosen.state,
            optimizer=chosen.optimizer,
            memory=choice.memory,
        )
        for step in self._engine.steps:
            with failing_as(f"the promotion step {getattr(step, '__name__', type(step).__name__)}"):
                parent = step(parent, before, self)
        if winner is not None:
            parent = parent.with_slot(WINNER, winner)
        self._own.clear()
        del self._parent  # these candidates are still referred to while the next ones train
        return parent

    @property
    def trainable(self) -> list[str]:
        """The names of the parameters that are trained."""
        return self._engine.worker.trainable

    def recalibrated(self, state: State, batches: int) -> State:
        """The state with batch-norm statistics of so many clean training batches.

        Every process computes them; those of one are taken, since another machine's last bits may differ.
        """
        owner = max(self.weights, key=self.weights.__getitem__)
        found = recalibrated(self._engine.worker, state, batches, self._parent.generation)
        return {
            name: tensor if tensor is state[name] else self._engine.team.spread(owner, tensor, tensor)
            for name, tensor in found.items()
        }

    def _average(self, chosen: Candidate, choice: Choice) -> None:
        """Make `chosen` the weighted mean, in place.

        The others' tensors come piece by piece and in the order of their indices, from whoever has them, and are let
        go at once: beside its own candidates, a process holds the winner and a piece.
        """
        weights = {index: weight for index, weight in sorted(choice.shares.items()) if index != choice.index}
        if not weights:
            return
        own, team = self._own, self._engine.team
        others = {i: averaged(own[i].state, own[i].optimizer) for i in weights if i in own}
        for place, tensor in averaged(chosen.state, chosen.optimizer).items():
            # A parameter that a candidate never used has no optimizer state there: it follows the others.
            mine = {i: pieces(tensors.get(place, tensor), tensor) for i, tensors in others.items()}
            for number, piece in enumerate(pieces(tensor, tensor)):
                parts = {i: mine[i][number] if i in mine else None for i in weights}
                move_to_mean(piece, ((weights[i], team.spread(i, part, piece)) for i, part in parts.items()))


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
        self._pairs, self._differing = 0, 0
        self._first: tuple[Indices, npt.NDArray[np.float32]] | None = None

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """Evaluate some candidates on some cases: (pool, cases)."""
        shared = self._shared(cases, pool, self._generation)
        if self._first is None and len(pool) == len(self.candidates):
            self._first = cases[:EVALUATION_BATCH], shared[:, :EVALUATION_BATCH]
        self.evaluated += len(pool) * len(cases)
        solved = (shared == 0).sum(axis=0)
        self._pairs += len(cases) * (len(pool) * (len(pool) - 1) // 2)
        self._differing += int((solved * (len(pool) - solved)).sum())
        return shared

    def _shared(self, cases: Indices, pool: Indices, generation: int) -> npt.NDArray[np.float32]:
        """The (pool, cases) errors, on every process; augmented cases are those of a generation."""
        started = time.perf_counter()
        asked = [index for index in pool.tolist() if index in self._own]
        states = [self._own[index].state for index in asked]
        with failing_as(f"the evaluation of candidates {asked} of generation {self._generation} on cases"):
            table: Iterable[npt.NDArray[np.float32]] = (
                self._engine.worker.errors(states, cases, generation) if asked else ()
            )
        shared = self._engine.team.share(dict(zip(asked, table, strict=True)), pool, len(cases))
        self.seconds += time.perf_counter() - started
        return shared

    def winner(self, choice: Choice) -> State | None:
        """What is kept of the winner for its offspring to be compared with: its errors on the first cases seen."""
        if self._first is None:
            return None
        cases, errors = self._first
        place = int(np.flatnonzero(self.candidates == choice.index)[0])
        return winner_slot(
            cases, errors, place, choice.cases_used if choice.columns_used is None else choice.columns_used
        )

    def again(self, slot: State) -> ErrorTable:
        """These candidates' errors on the cases that their parent won by a generation ago: (candidates, cases)."""
        cases = slot["cases"].numpy()
        self.evaluated += len(self.candidates) * len(cases)
        return self._shared(cases, self.candidates, self._generation - 1)

    @property
    def disagreement(self) -> float | None:
        """The share of pairs of candidates, case by case, of which one solves the case and the other does not."""
        graded = self._engine.worker.task.graded
        return None if graded or self._pairs == 0 else self._differing / self._pairs

    def matrix(self) -> ErrorTable:
        """Every candidate on every case, in the data's order."""
        first, found = self._first, self(np.arange(self._engine.num_cases), self.candidates)
        self._first = first  # its cases are in another order than those that decide
        return found
