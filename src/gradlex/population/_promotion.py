"""Promotion: a short list of steps from the chosen candidates to the next generation's parent.

A step is a function `(parent, before, candidates) -> Parent`. `parent` is the next parent as far as it has come, at
first the weighted mean that selection chose; `before` is the parent that the candidates started from. What a step
remembers it puts into a slot of the parent (`parent.with_slot(name, tensors)`) and finds in `before.slots` a generation
later. Every process runs the steps on the same tensors, so a step must be deterministic.

Everything here is computed in float64, element by element, and stored in the tensor's own type, so that neither the
number of threads nor that of processes changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from gradlex._devices import CPU, has_float64
from gradlex.errors import RunError
from gradlex.population._parent import OptimizerState, Parent, State
from gradlex.population._state import copy
from gradlex.population._variation import InheritVariation
from gradlex.recipe import Recipe

_PIECE = 1 << 20
"""Elements that are computed at once, so that a large tensor needs no large copies of itself in float64."""

_COUNTED = ("step", "eta", "mu", "mu_product")
"""What torch's optimizers keep of how far they have come: the same for all, or the largest weight's."""


class PromotedCandidates(Protocol):
    """What a step can read about the generation that is being promoted.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> class Shares:
        ...     def __call__(self, parent, before, candidates: gradlex.population.PromotedCandidates):
        ...         print(dict(candidates.weights), len(candidates.losses))
        ...         return parent
        >>> data = torch.randn(60, 4), torch.arange(60) % 2
        >>> recipe = gradlex.Recipe(generations=1, batch_size=16, population=2, promotion="average")
        >>> run = gradlex.train(torch.nn.Linear(4, 2), data, recipe, promotion_steps=[Shares()])
        {0: 0.5, 1: 0.5} 2
    """

    @property
    def weights(self) -> Mapping[int, float]:
        """Each chosen candidate's part in the parent."""
        ...

    @property
    def losses(self) -> Sequence[float | None]:
        """Each candidate's mean training loss; None where it diverged."""
        ...

    @property
    def trainable(self) -> Sequence[str]:
        """The names of the parameters that are trained."""
        ...

    def recalibrated(self, state: State, batches: int) -> State:
        """The state with batch-norm statistics computed anew on so many training batches, augmented as in training."""
        ...


class Step(Protocol):
    """One step of promotion.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> class Told:
        ...     def __call__(self, parent, before, candidates):
        ...         print(before.generation, sorted(candidates.trainable))
        ...         return parent
        >>> data = torch.randn(60, 4), torch.arange(60) % 2
        >>> recipe = gradlex.Recipe(generations=2, batch_size=16)
        >>> run = gradlex.train(torch.nn.Linear(4, 2), data, recipe, promotion_steps=[Told()])
        0 ['bias', 'weight']
        1 ['bias', 'weight']
    """

    def __call__(self, parent: Parent, before: Parent, candidates: PromotedCandidates) -> Parent:
        """The parent after this step."""
        ...


Steps: TypeAlias = tuple[Step, ...]


def steps_of(recipe: Recipe) -> Steps:
    """The recipe's promotion steps, in order."""
    steps: list[Step] = []
    if recipe.has_outer_step:
        steps.append(OuterStep(recipe.outer_lr, recipe.outer_momentum, recipe.outer_nesterov))
    if recipe.recalibrate:
        steps.append(Recalibration(recipe.recalibrate))
    if recipe.tail_mean:
        steps.append(TailMean())
    if recipe.branch:  # until then one network is trained as SGD trains it
        steps = [SinceBranch(recipe.branch, step) for step in steps]
    if recipe.ema is not None:
        steps.append(MovingAverage(recipe.ema))
    if recipe.inherit_variation:
        steps.append(InheritVariation(recipe))
    return tuple(steps)


@dataclass(frozen=True)
class SinceBranch:
    """A step that is taken from the branch on."""

    branch: int
    step: Step

    def __call__(self, parent: Parent, before: Parent, candidates: PromotedCandidates) -> Parent:
        """The parent after the step, or, before the branch, as it is."""
        return parent if before.generation < self.branch else self.step(parent, before, candidates)


@dataclass(frozen=True)
class OuterStep:
    """Move the parent towards what is promoted (SlowMo, Wang et al. 2020; DiLoCo, Douillard et al. 2023).

    With d = promoted - parent and v <- momentum v + d, the parent becomes parent + lr v, or, in Nesterov's form,
    parent + lr (d + momentum v). It remembers v.

    Examples:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> from gradlex import Parent
        >>> from gradlex.population import OuterStep
        >>> candidates = SimpleNamespace(trainable=["w"])
        >>> before = Parent(generation=0, state={"w": torch.tensor([1.0])})
        >>> promoted = Parent(generation=1, state={"w": torch.tensor([2.0])})
        >>> OuterStep(lr=0.5)(promoted, before, candidates).state["w"]  # half of the way
        tensor([1.5000])
    """

    lr: float
    momentum: float = 0.0
    nesterov: bool = False

    def __call__(self, parent: Parent, before: Parent, candidates: PromotedCandidates) -> Parent:
        """The parent moved, in place, and its velocity."""
        velocity, moving = before.slots.get("outer"), dict[str, Tensor]()
        for name in candidates.trainable:
            target = parent.state[name]
            if self.momentum:
                moving[name] = torch.empty_like(target)
            origins = pieces(before.state[name].to(target.device), target)
            earlier = None if velocity is None else pieces(velocity[name].to(target.device), target)
            later = pieces(moving[name], target) if self.momentum else None
            for number, piece in enumerate(pieces(target, target)):
                start = _wide(origins[number])
                delta = _wide(piece) - start
                speed = delta if earlier is None else self.momentum * _wide(earlier[number]) + delta
                step = delta + self.momentum * speed if self.nesterov else speed
                piece.copy_(start + self.lr * step)
                if later is not None:
                    later[number].copy_(speed)
        moved = [*(parent.state[name] for name in candidates.trainable), *moving.values()]
        # Stop before a parent that no candidate can start from is saved: only an outer step can make one.
        if moved and not torch.stack([torch.isfinite(tensor).all() for tensor in moved]).all():
            raise RunError(
                f"the outer step after generation {before.generation} made a weight that is not finite, at outer_lr "
                f"{self.lr:g} and outer_momentum {self.momentum:g}: use smaller ones, or a smaller lr."
            )
        return parent.with_slot("outer", moving) if moving else parent


@dataclass(frozen=True)
class Recalibration:
    """Compute batch-norm statistics anew, as averaged weights need them (Izmailov et al. 2018).

    Examples:
        >>> import torch
        >>> import gradlex
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
        >>> data = torch.randn(64, 4), torch.arange(64) % 2
        >>> recipe = gradlex.Recipe(generations=1, batch_size=16, promotion="average", recalibrate=4)
        >>> run = gradlex.train(net, data, recipe)  # recalibrate=4 is this step, with 4 batches
        >>> run.recipe.recalibrate
        4
    """

    batches: int

    def __call__(self, parent: Parent, before: Parent, candidates: PromotedCandidates) -> Parent:
        """The parent with statistics of training batches."""
        return replace(parent, state=candidates.recalibrated(parent.state, self.batches))


@dataclass(frozen=True)
class MovingAverage:
    """Keep decay x average + (1 - decay) x parent beside the parents; whole numbers are the parent's.

    Examples:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> from gradlex import Parent
        >>> from gradlex.population import MovingAverage
        >>> average, candidates = MovingAverage(decay=0.9), SimpleNamespace(trainable=["w"])
        >>> start = Parent(generation=0, state={})
        >>> first = average(Parent(generation=1, state={"w": torch.tensor([1.0])}), start, candidates)
        >>> second = average(Parent(generation=2, state={"w": torch.tensor([2.0])}), first, candidates)
        >>> second.slots["ema"]["w"]
        tensor([1.1000])
    """

    decay: float

    def __call__(self, parent: Parent, before: Parent, candidates: PromotedCandidates) -> Parent:
        """The same parent, with the average so far; it begins with the first parent."""
        average, found = before.slots.get("ema"), copy(parent.state)
        for name, tensor in found.items():
            if average is not None and _fractional(tensor):
                earlier = pieces(average[name].to(tensor.device), tensor)
                for piece, old in zip(pieces(tensor, tensor), earlier, strict=True):
                    piece.copy_(self.decay * _wide(old) + (1 - self.decay) * _wide(piece))
        return parent.with_slot("ema", found)


@dataclass(frozen=True)
class TailMean:
    """Keep the mean of all parents since the branch (SWA, Izmailov et al. 2018); whole numbers are the parent's.

    Examples:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> from gradlex import Parent
        >>> from gradlex.population import TailMean
        >>> mean, candidates = TailMean(), SimpleNamespace(trainable=["w"])
        >>> parent = Parent(generation=0, state={})
        >>> for generation, value in enumerate([1.0, 2.0, 6.0], start=1):
        ...     parent = mean(Parent(generation=generation, state={"w": torch.tensor([value])}), parent, candidates)
        >>> parent.slots["tail"]["w"]
        tensor([3.])
    """

    def __call__(self, parent: Parent, before: Parent, candidates: PromotedCandidates) -> Parent:
        """The same parent, with the mean so far and the number of parents in it."""
        mean, found = before.slots.get("tail"), copy(parent.state)
        count = (
            torch.ones(1, dtype=torch.int64)
            if mean is None
            else before.slots["tail_count"]["parents"].cpu() + 1
        )
        for name, tensor in found.items():
            if mean is not None and _fractional(tensor):
                earlier = pieces(mean[name].to(tensor.device), tensor)
                for piece, old in zip(pieces(tensor, tensor), earlier, strict=True):
                    start = _wide(old)
                    piece.copy_(start + (_wide(piece) - start) / int(count))
        return parent.with_slot("tail", found).with_slot("tail_count", {"parents": count})


def averaged(state: State, optimizer: OptimizerState | None) -> dict[tuple[str, ...], Tensor]:
    """Every tensor of a candidate that a mean is taken of, by its place.

    Whole numbers are not (batch counts), nor what an optimizer counts for a parameter (its steps).
    """
    found: dict[tuple[str, ...], Tensor] = {
        ("state", name): tensor for name, tensor in state.items() if _fractional(tensor)
    }
    for name, values in (optimizer or {}).items():
        for key, value in values.items():
            follows = isinstance(value, Tensor) and (value.ndim or not state[name].ndim)
            if follows and key not in _COUNTED and _fractional(value):
                found["optimizer", name, key] = value
    return {place: tensor for place, tensor in found.items() if tensor.numel()}


def pieces(tensor: Tensor, like: Tensor) -> Sequence[Tensor]:
    """The tensor's elements in the memory order of `like`, piece by piece; views of it where that is its own."""
    if tensor.stride() != like.stride():
        tensor = torch.empty_like(like).copy_(tensor)
    return torch.split(tensor.as_strided((tensor.numel(),), (1,)), _PIECE)


def move_to_mean(reference: Tensor, others: Iterable[tuple[float, Tensor]]) -> None:
    """Make `reference` the weighted mean of itself and `others`, given as weight and tensor; weights sum to 1.

    As reference + sum of weight x (other - reference), identical tensors give themselves, bit for bit.
    """
    start = _wide(reference)
    shift = torch.zeros_like(start)
    for weight, other in others:
        # What is equal adds nothing: a mask of -inf minus itself would be NaN. Multiplied, then added: one step
        # for both may round otherwise at the end of a thread's part.
        given = _wide(other)
        shift.add_((given - start).masked_fill_(given == start, 0).mul_(weight))
    reference.copy_(torch.where(shift == 0, start, start + shift))


def _fractional(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _wide(tensor: Tensor) -> Tensor:
    """The tensor in double precision; on the host where its device has none."""
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.to(tensor.device if has_float64(tensor.device) else CPU, dtype)
