"""Population: gradient lexicase selection around any training loop (Ding and Spector 2022, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gradlex._checks import Count, Natural, check
from gradlex.errors import InputError, RunError, warn
from gradlex.population.attributes import AttributeWatch
from gradlex.population.examination import ErrorFunction, Examination
from gradlex.population.split import split
from gradlex.population.state import (
    Network,
    OptimizerState,
    Snapshot,
    checksum,
    cloned,
    finite,
    mean_places,
    move_to_mean,
    remember_modes,
)
from gradlex.population.team import Team, find_team
from gradlex.randomness import stream, torch_seed
from gradlex.recipe import MomentumState, Promotion
from gradlex.seeding import kept_generators, remember_generators, reseed, seeded
from gradlex.selection import Choice, Selection, make_selection
from gradlex.selection.promotion import promoting
from gradlex.selection.protocol import Indices

_VERSION = 2
_STORED = {"version", "generation", "settings", "model", "optimizer", "optimizer_options", "blank", "memory"}


@dataclass(kw_only=True, eq=False)
class Candidate:
    """A copy of the parent that the model holds while the body of the loop trains it."""

    generation: int
    """How many generations were completed before this one."""
    index: int
    """Its number, from 0 to the population's size - 1."""
    indices: Indices
    """Its part of the samples, in random order."""
    seed: int
    """The population's seed."""
    discarded: bool = field(default=False, init=False)
    """Whether it is left out of selection: `discard()` was called, or a weight is not finite."""

    @cached_property
    def rng(self) -> np.random.Generator:
        """This candidate's random stream, the same on every machine."""
        return stream(self.seed, "samples", self.generation, self.index)

    def discard(self) -> None:
        """Leave this candidate out of selection, because its loss is not finite for example."""
        self.discarded = True


@dataclass(kw_only=True)
class _Trained:
    """A generation between `candidates` and `select`: in training, or trained and not yet selected."""

    parent: Snapshot
    optimizer: list[Any]
    """The parent's optimizer state; each candidate starts from `begin`."""
    begin: list[Any]
    parts: list[Indices]
    size: int
    inherits: bool
    """Whether candidates start with the parent's optimizer state, and the next parent takes the chosen one's."""
    ends: dict[int, list[float]] = field(default_factory=dict)
    """The learning rates that candidates ended with, by the number of their samples."""
    put_modes_back: Callable[[], None]
    put_generators_back: Callable[[], None]
    candidates: dict[int, Candidate] = field(default_factory=dict)
    """This process's candidates, in the order they were trained in."""
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    optimizers: dict[int, list[Any]] = field(default_factory=dict)
    complete: bool = False


class Population:
    """Candidates of one model: trained in your loop, selected by your cases.

    Args:
        model: Any module. It holds a candidate inside the loop, and the parent after `select`.
        optimizer: The optimizer of your loop, or several as a list. Leave it out if the loop makes a new one for each
            candidate, or needs none.
        size: The number of candidates p.
        seed: Decides the parts, the order of cases, ties, and the random numbers drawn in the loop.
        selection: `"lexicase"`, `"epsilon-lexicase(epsilon=0.1)"`, an object of `gradlex.selection`, or a function.
        promotion: What becomes the parent: the `"winner"`, the `"average"` of all candidates, or `"expected"`, their
            mean weighted by each one's chance to win.
        momentum_state: The optimizer state that a generation starts with: `"reset"` clears it, `"inherit"` keeps the
            winner's. A generation of one candidate always keeps it.
        recalibrate: Called with each new parent in the model; recomputes batch-norm statistics after a mean, by
            `torch.optim.swa_utils.update_bn(loader, model)` for example.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> population = gradlex.Population(model, optimizer, size=4)
        >>> for epoch in range(5):
        ...     for candidate in population.candidates(len(x)):
        ...         for batch in torch.from_numpy(candidate.indices).split(10):
        ...             optimizer.zero_grad()
        ...             torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        ...             optimizer.step()
        ...     choice = population.select(lambda cases: model(x[cases]).argmax(dim=1) != y[cases], len(x))
        >>> population.generation
        5
        >>> bool((model(x).argmax(dim=1) == y).float().mean() > 0.9)
        True
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer] | None = None,
        size: int = 4,
        seed: int = 0,
        selection: str | Selection | Callable[..., Choice] = "lexicase",
        promotion: Promotion = "winner",
        momentum_state: MomentumState = "reset",
        *,
        recalibrate: Callable[[], object] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"model must be a torch.nn.Module, got {model!r:.80}.")
        check("momentum_state", MomentumState, momentum_state)
        self.model: nn.Module = model
        self.size: int = check("size", Count, size)
        self.seed: int = check("seed", Natural, seed)
        self.generation = 0
        """How many generations are completed."""
        self.team: Team = find_team(model)
        self._strategy = make_selection(selection)
        self._select = promoting(promotion, self._strategy)
        self._promotion, self._momentum_state, self._recalibrate = promotion, momentum_state, recalibrate
        self._network = Network(model)
        given: Any = [] if optimizer is None else optimizer
        given = list(given) if isinstance(given, list | tuple) else [given]
        self._optimizer = OptimizerState(given, self._network)
        self._memory: Mapping[str, npt.NDArray[np.generic]] = {}
        self._trained: _Trained | None = None
        self._loop: Iterator[Candidate] | None = None
        self._watch, self._warned = AttributeWatch(), False
        self._put(self.team.hand_over(0, self._captured()))

    @property
    def leads(self) -> bool:
        """Whether this is the process that prints and writes files: the only one, or rank 0."""
        return int(self.team.rank) == 0

    def candidates(
        self, num_samples: int | None = None, size: int | None = None, *, parts: Sequence[Any] | None = None
    ) -> Iterator[Candidate]:
        """Deal out the samples and yield each candidate while the model holds it (Algorithm 1, lines 4 to 7).

        While the body of the loop runs, the global random generators of Python, NumPy and torch are seeded for
        this candidate, and they are restored afterwards.

        Args:
            num_samples: How many training samples there are.
            size: The number of candidates in this generation, if it differs: 1 is plain SGD.
            parts: The samples of each candidate, if you deal them out: one array of indices per candidate.

        Examples:
            >>> import torch
            >>> import gradlex
            >>> population = gradlex.Population(torch.nn.Linear(2, 1), size=2)
            >>> for candidate in population.candidates(5):
            ...     print(candidate.index, len(candidate.indices))
            0 3
            1 2
        """
        if self._trained is not None:
            raise InputError(
                f"{self._unfinished()}: call select() after the loop over candidates, or restore() to train them again."
            )
        if parts is not None and size not in (None, len(parts)):
            raise InputError(f"got {len(parts)} parts, one for each candidate, and size={size}: leave size out.")
        size = len(parts) if parts is not None else self.size if size is None else check("size", Count, size)
        if parts is not None:
            given = [np.asarray(part) for part in parts]
            if not given or any(part.ndim != 1 or part.dtype.kind not in "iu" for part in given):
                raise InputError(f"parts must be lists of sample numbers, one for each candidate, got {parts!r:.80}.")
        else:
            total: int = check("num_samples", Count, num_samples)
            if total < size:
                raise InputError(f"{size} candidates need at least {size} samples, got {total}.")
            parts = split(total, size, stream(self.seed, "split", self.generation))
        self._network.check()
        parent, optimizer = self._captured()
        inherits = size == 1 or self._momentum_state == "inherit"
        begin = optimizer if inherits else self._optimizer.blank
        self._trained = _Trained(
            parent=parent,
            optimizer=optimizer,
            begin=begin,
            parts=[np.asarray(part, dtype=np.intp) for part in parts],
            size=size,
            inherits=inherits,
            put_modes_back=remember_modes(self.model),
            put_generators_back=remember_generators(self._network.device),
        )
        self._watch.begin(self._network.module)
        self._loop = self._train(self._trained)
        return self._loop

    def _train(self, trained: _Trained) -> Iterator[Candidate]:
        for index in self.team.mine(trained.size):
            self._put((cloned(trained.parent), cloned(trained.begin)))
            trained.put_modes_back()
            for parameter in self._network.module.parameters():
                parameter.grad = None  # one candidate's gradients must not reach the next
            candidate = Candidate(generation=self.generation, index=index, indices=trained.parts[index], seed=self.seed)
            reseed(torch_seed(self.seed, "dropout", self.generation, index), self._network.device)
            yield candidate
            self._network.check(trained.parent)
            self._check_rates(trained, candidate)
            self._watch.look(self._network.module)
            snapshot, state = self._captured()
            candidate.discarded |= not finite(snapshot, trained.parent)
            trained.candidates[index], trained.snapshots[index] = candidate, snapshot
            trained.optimizers[index] = state if trained.inherits else []
        # Not in a finally: an abandoned loop is closed when its memory is freed, perhaps in the middle of other code.
        trained.put_modes_back()
        trained.put_generators_back()
        trained.complete = True

    def select(self, errors: ErrorFunction, num_cases: int) -> Choice:
        """Choose the parent of the next generation and put it into the model (Algorithm 1, lines 8 to 16).

        Args:
            errors: Called with an array of case numbers while a candidate is in the model, in evaluation mode without
                gradients; returns its error on each of these cases. 0 or False is solved. NaN is worst. Selection asks
                for small slices of cases, and only for candidates that are still in.
            num_cases: How many cases there are. Their order is random.

        Returns:
            The chosen candidate, why it was chosen, and after how many cases.

        Examples:
            >>> import torch
            >>> import gradlex
            >>> x, y = torch.randn(20, 2), torch.zeros(20)
            >>> model = torch.nn.Linear(2, 1)
            >>> population = gradlex.Population(model, size=2, selection="tournament")
            >>> for candidate in population.candidates(20):
            ...     with torch.no_grad():
            ...         _ = model.weight.mul_(candidate.index)  # candidate 1 stays as it was
            >>> choice = population.select(lambda cases: (model(x[cases])[:, 0] - y[cases]).abs(), 20)
            >>> choice.reason, choice.cases_used
            ('best_mean', 20)
        """
        trained = self._trained
        if trained is None or not trained.complete:
            raise InputError(
                "no candidates are trained: loop over candidates() first."
                if trained is None
                else f"{self._unfinished()}: finish the loop, or call restore() to train them again."
            )
        check("num_cases", Count, num_cases)
        discarded = self.gather({i: float(c.discarded) for i, c in trained.candidates.items()})
        pool = [index for index in range(trained.size) if not discarded[index]]
        if not pool:
            number = self.generation + 1
            self.restore()
            raise RunError(
                f"every candidate of generation {number} diverged (a weight or loss is not finite): train with a "
                "smaller learning rate. The model holds the last parent."
            )
        self._network.check(trained.parent)
        if self.team.processes > 1:
            self._check_distinct(trained, pool)
        examination = Examination(
            network=self._network,
            team=self.team,
            snapshots=trained.snapshots,
            errors=errors,
            candidates=np.array(pool, dtype=np.intp),
            num_cases=num_cases,
            memory=self._memory,
        )
        cases = stream(self.seed, "cases", self.generation).permutation(num_cases)
        with kept_generators(self._network.device), torch.no_grad(), ExitStack() as stack:
            stack.callback(remember_modes(self.model))
            stack.callback(self._network.forget)
            self.model.eval()
            choice = self._select(cases, examination, stream(self.seed, "choice", self.generation))
        if choice.reason == "all_failed" and not examination.binary:
            raise InputError(
                "errors(cases) returned numbers other than 0 and 1, so all candidates fail the first case and lexicase "
                "would pick one at random: return booleans, such as outputs.argmax(dim=1) != labels, or set "
                "selection='epsilon-lexicase', which compares such errors."
            )
        choice = replace(choice, evaluated=examination.evaluated, disagreement=examination.disagreement)
        self._promote(trained, choice)
        self._memory = choice.memory
        self._trained = self._loop = None
        self.generation += 1
        return choice

    def gather(self, values: Mapping[int, float]) -> dict[int, float]:
        """Collect one number per candidate from the processes that trained them; all processes get all numbers.

        Examples:
            >>> import torch
            >>> import gradlex
            >>> population = gradlex.Population(torch.nn.Linear(2, 1), size=2)
            >>> losses = {candidate.index: 0.5 for candidate in population.candidates(10)}
            >>> population.gather(losses)
            {0: 0.5, 1: 0.5}
        """
        if self._trained is None:
            raise InputError("no candidates are trained: call gather() between the loop over candidates and select().")
        wanted = list(range(self._trained.size))
        missing = [index for index in self.team.mine(self._trained.size) if index not in values]
        if missing:
            raise InputError(f"gather() needs a number for each candidate, and candidate {missing[0]} has none.")
        table = self.team.share({i: np.array([value]) for i, value in values.items()}, wanted, 1)
        return dict(zip(wanted, table[:, 0].tolist(), strict=True))

    def parent_state(self) -> dict[str, Tensor]:
        """A copy of the parent's parameters and buffers by name, also while the model holds a candidate.

        Examples:
            >>> import torch
            >>> import gradlex
            >>> population = gradlex.Population(torch.nn.Linear(2, 1))
            >>> sorted(population.parent_state())
            ['bias', 'weight']
        """
        parent = self._network.capture() if self._trained is None else self._trained.parent
        return {name: t.clone() for name, t in parent["tensors"].items() if t is not None}

    def restore(self) -> None:
        """Put the parent back into the model and the optimizer, after an exception in the loop for example.

        The generation can then be trained again.

        Examples:
            >>> import torch
            >>> import gradlex
            >>> population = gradlex.Population(torch.nn.Linear(2, 1))
            >>> for candidate in population.candidates(20):
            ...     break
            >>> population.restore()
            >>> len(list(population.candidates(20)))
            4
        """
        if self._trained is not None:
            self._network.check()
            if self._loop is not None:
                self._loop.close()  # type: ignore[attr-defined]  # a generator
            if not self._trained.complete:
                self._trained.put_modes_back()
                self._trained.put_generators_back()
            self._put((self._trained.parent, self._trained.optimizer))
            self._trained = self._loop = None

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue bit for bit, as tensors and plain values for `torch.save`.

        It holds the model, the optimizer's state and options, the number of completed generations, and what a strategy
        remembers. Save your scheduler beside it.

        Examples:
            >>> import torch
            >>> import gradlex
            >>> population = gradlex.Population(torch.nn.Linear(2, 1))
            >>> saved = population.state_dict()
            >>> population.load_state_dict(saved)
        """
        if self._trained is not None:
            raise InputError(f"{self._unfinished()}: save after select(), or call restore() first.")
        model, optimizer = self._captured()
        return {
            "version": _VERSION,
            "generation": self.generation,
            "settings": self._settings(),
            "model": cloned(model),
            "optimizer": cloned(optimizer),
            "optimizer_options": self._optimizer.options(),
            "blank": cloned(self._optimizer.blank),
            "memory": {name: torch.from_numpy(np.array(value)) for name, value in self._memory.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned, with any number of processes."""
        if not isinstance(state, Mapping) or not state.keys() >= _STORED or state["version"] != _VERSION:
            raise InputError(f"this is not what Population.state_dict() returned: {state!r:.80}.")
        differing = [
            f"{name} is {given!r}, the saved run has {state['settings'].get(name)!r}"
            for name, given in self._settings().items()
            if state["settings"].get(name) != given
        ]
        if differing:
            raise InputError(f"this Population was made with different settings: {'; '.join(differing)}.")
        self._network.check()
        present = self._network.capture()["tensors"]
        saved = state["model"]["tensors"]
        wrong = _mismatches(present, saved, dict(self._network.module.named_parameters()))
        if not self._optimizer.fit(state["optimizer_options"]):
            wrong.append("the optimizer's type or parameter groups differ")
        if wrong:
            raise InputError(f"the saved state belongs to a different model or optimizer: {'; '.join(wrong)}.")
        self.restore()
        device = self._network.device
        devices = {name: device if t is None else t.device for name, t in present.items()}
        tensors = {name: None if t is None else t.to(devices[name]) for name, t in cloned(saved).items()}
        optimizer = _on(device, cloned(state["optimizer"]))
        self._optimizer.blank = _on(device, cloned(state["blank"]))
        self._put(({"tensors": tensors, "extra": state["model"]["extra"]}, optimizer))
        self._optimizer.set_options(state["optimizer_options"])
        self._memory = {name: value.numpy() for name, value in state["memory"].items()}
        self.generation = int(state["generation"])

    def _promote(self, trained: _Trained, choice: Choice) -> None:
        """Put the chosen candidate, or the weighted mean, into the model and the optimizer of every process."""
        own = choice.index in trained.snapshots
        chosen = (trained.snapshots[choice.index], trained.optimizers[choice.index]) if own else None
        model, optimizer = self.team.hand_over(choice.index, chosen)
        others = [(i, weight) for i, weight in sorted(choice.shares.items()) if i != choice.index]
        if others:
            model, optimizer = cloned(model), cloned(optimizer)  # if recalibrate fails, the candidates are as before
            own_places = {i: mean_places(trained.snapshots[i], trained.optimizers[i]) for i in trained.snapshots}
            for place, tensor in mean_places(model, optimizer).items():
                # A candidate that never used a parameter has no optimizer state for it: the chosen one's counts.
                parts = []
                for i, weight in others:
                    own_part = own_places[i].get(place, tensor) if i in own_places else None
                    parts.append((weight, self.team.spread(i, own_part, tensor)))
                move_to_mean(tensor, parts)
        self._put((model, optimizer if trained.inherits else cloned(self._optimizer.blank)))
        if self._recalibrate is not None and trained.size > 1:
            with seeded(torch_seed(self.seed, "recalibration", self.generation), self._network.device):
                self._recalibrate()
            # Last bits may differ between machines, so every process takes rank 0's result.
            self._put(self.team.hand_over(0, self._captured()))

    def _check_distinct(self, trained: _Trained, pool: list[int]) -> None:
        """Raise an error if candidates are equal because processes averaged their gradients."""
        parameters = [name for name, _ in self._network.module.named_parameters()]
        sums = self.gather({i: checksum(snapshot, parameters) for i, snapshot in trained.snapshots.items()})
        before, first = checksum(trained.parent, parameters), dict[float, int]()
        for index in pool:
            total = sums[index]
            other = first.setdefault(total, index)
            if total != before and not np.array_equal(trained.parts[index], trained.parts[other]):
                raise InputError(
                    f"candidates {other} and {index} have different samples and the same weights, so your loop seems "
                    "to average gradients over processes, as DistributedDataParallel does: train the model without "
                    "it, or give the wrapped model to the Population."
                )

    def _check_rates(self, trained: _Trained, candidate: Candidate) -> None:
        """Warn once if a scheduler continues from one candidate to the next."""
        rates, silent = self._optimizer.rates(), candidate.discarded or self._warned
        if not silent and trained.ends.setdefault(len(candidate.indices), rates) != rates:
            self._warned = True
            warn(
                f"candidate {candidate.index} ends with a different learning rate than the one before it. If a "
                "scheduler does that, step it once an epoch, or reset it for each candidate (docs/own-loop.md)."
            )

    def _captured(self) -> tuple[Snapshot, list[Any]]:
        return self._network.capture(), self._optimizer.capture()

    def _put(self, held: tuple[Snapshot, list[Any]]) -> None:
        self._network.install(held[0])
        self._optimizer.install(held[1])

    def _settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "size": self.size,
            "selection": str(self._strategy),
            "promotion": self._promotion,
            "momentum_state": self._momentum_state,
        }

    def _unfinished(self) -> str:
        trained = self._trained
        assert trained is not None
        if trained.complete:
            return f"the candidates of generation {self.generation + 1} are trained and not selected"
        done, total = len(trained.candidates), len(self.team.mine(trained.size))
        return f"generation {self.generation + 1} is not finished: {done} of {total} candidates are trained"


def _on(device: torch.device, optimizer: list[Any]) -> list[Any]:
    """The optimizer's state on a device; step counts stay on the host, where optimizers keep them by default."""
    return [
        {
            number: {k: v.to(device) if isinstance(v, Tensor) and v.ndim else v for k, v in values.items()}
            for number, values in state.items()
        }
        for state in optimizer
    ]


def _mismatches(
    present: Mapping[str, Tensor | None], saved: Mapping[str, Tensor | None], parameters: Collection[str]
) -> list[str]:
    """How a saved state differs from the model's in names and shapes; a buffer may be unset in one of them."""
    found = [f"{name} is missing" for name in present if name not in saved]
    found += [f"{name} is not in the model" for name in saved if name not in present]
    for name in present.keys() & saved.keys():
        mine, theirs = present[name], saved[name]
        if mine is not None and theirs is not None and name in parameters:
            if mine.shape != theirs.shape:
                found.append(f"{name} has the shape {tuple(theirs.shape)} there and {tuple(mine.shape)} here")
            elif mine.dtype != theirs.dtype:
                found.append(f"{name} is {theirs.dtype} there and {mine.dtype} here")
    return sorted(found)[:5]
