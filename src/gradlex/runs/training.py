"""One process's part of a run: train a candidate, evaluate it on cases, and measure a network on a part of the data."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from gradlex._text import parse
from gradlex.data.inputs import call
from gradlex.data.samples import Samples
from gradlex.errors import InputError
from gradlex.population import Candidate, Population
from gradlex.population.split import batches
from gradlex.population.state import Network, Snapshot, cloned, mean_places, move_to_mean
from gradlex.randomness import stream, torch_seed
from gradlex.recipe import OPTIMIZERS, Recipe
from gradlex.runs.evaluate import evaluated_batches, outputs_of
from gradlex.runs.problem import Problem
from gradlex.seeding import seeded
from gradlex.selection.protocol import Indices


class Trainer:
    """A problem's network with its population: what `evolve` needs, and the means of parents."""

    def __init__(self, problem: Problem, *, compiled: bool = False) -> None:
        recipe = self._recipe = problem.recipe
        self._task, self._train, self.model = problem.task, problem.parts.train, problem.model
        self._batch_size = recipe.batch_size or len(problem.parts.train)
        called = torch.compile(self.model) if compiled else self.model
        assert isinstance(called, nn.Module)
        self._called = called
        self._optimizer = make_optimizer(recipe, self.model)
        self.population = Population(
            self._called,
            self._optimizer,
            size=recipe.population or 1,
            seed=recipe.seed,
            selection=problem.selection,
            promotion=recipe.promotion,
            momentum_state=recipe.momentum_state or "reset",
            recalibrate=(lambda: self.recalibrate(recipe.recalibrate)) if recipe.recalibrate else None,
        )
        self._network = Network(self.model)
        self._device = self._network.device

    def train(self, candidate: Candidate) -> float:
        """SubGD: train the candidate on its part, and return its mean loss."""
        recipe = self._recipe
        for group in self._optimizer.param_groups:
            group["lr"] = recipe.lr_at(candidate.generation)
            if isinstance(self._optimizer, torch.optim.SGD) and group["fused"] and group["momentum"]:
                for parameter in group["params"]:  # torch starts a fused momentum only for all parameters at once
                    self._optimizer.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))
        rng = stream(recipe.seed, "augmentation", candidate.generation, candidate.index)
        total: Any = 0.0
        self._optimizer.zero_grad()
        for batch in batches(candidate.indices, self._batch_size):
            inputs, targets = self._train.augmented(batch, rng)
            with self._precision():
                loss = self._task.loss(call(self._called, inputs), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            self._optimizer.zero_grad()
            total = total + loss.detach() * len(batch)
        return float(total / len(candidate.indices))

    def errors(self, cases: Indices) -> Tensor:
        """The error of the network on each of these clean samples."""
        with self._precision():
            return torch.cat(
                [
                    self._task.errors(call(self._called, inputs), targets)
                    for inputs, targets in evaluated_batches(self._train, cases)
                ]
            )

    def measure(self, samples: Samples) -> dict[str, float]:
        """The task's metrics of the network on clean samples, which change nothing in it."""
        parent = self._network.capture()
        self._network.install(self._network.shielded(parent))
        try:
            return dict(self._task.metrics(outputs_of(self.model, samples, self._recipe.seed)))
        finally:
            self._network.install(parent)

    def parent(self) -> Snapshot:
        """A copy of the network's state."""
        copied: Snapshot = cloned(self._network.capture())
        return copied

    def install(self, snapshot: Snapshot) -> None:
        """Give the network a state."""
        tensors = {name: None if t is None else t.to(self._device) for name, t in snapshot["tensors"].items()}
        self._network.install(cloned({**snapshot, "tensors": tensors}))

    def recalibrate(self, count: int, index: int = 0) -> None:
        """Compute batch-norm statistics anew on `count` training batches, augmented as in training.

        Clean batches have other statistics, above all if crops have black borders. A layer in evaluation mode is frozen
        and keeps its own.
        """
        layers = [m for m in self.model.modules() if isinstance(m, _BatchNorm) and m.training]
        layers = [layer for layer in layers if layer.running_mean is not None]
        rng = stream(self._recipe.seed, "recalibration", self.population.generation, index)
        drawn = rng.permutation(len(self._train))[: count * self._batch_size]
        with torch.no_grad(), _means_of_batches(layers):
            for batch in batches(drawn, self._batch_size) if layers else ():
                inputs, _ = self._train.augmented(batch, rng)
                call(self.model, inputs)

    def finish_tail(self, mean: Snapshot) -> None:
        """Make the mean of the parents the network, with the batch-norm statistics of every sample."""
        self.install(mean)
        steps = -(-len(self._train) // self._batch_size)
        with seeded(torch_seed(self._recipe.seed, "recalibration", self.population.generation, 1), self._device):
            self.recalibrate(steps, index=1)

    def _precision(self) -> torch.autocast:
        # Without its cache, which would not notice that another candidate's weights are behind the same parameters.
        enabled = self._recipe.precision == "bfloat16"
        return torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=enabled, cache_enabled=False)


class TailMean:
    """The mean of all parents since the branch (SWA, Izmailov et al. 2018); whole numbers are the last parent's.

    Computed in double precision.
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self._count: int = 0 if state is None else state["count"]
        self.mean: Snapshot | None = None if state is None else state["mean"]

    def add(self, parent: Snapshot) -> None:
        """Take in one more parent, whose tensors are changed."""
        self._count += 1
        if self.mean is not None:
            before = mean_places(self.mean, [])
            for place, tensor in mean_places(parent, []).items():
                mean = before[place].to(tensor.device)
                move_to_mean(mean, [(1 / self._count, tensor)])
                tensor.copy_(mean)
        self.mean = parent

    def state(self) -> dict[str, Any] | None:
        """What a checkpoint holds of it."""
        return None if self.mean is None else {"count": self._count, "mean": self.mean}


def make_optimizer(recipe: Recipe, model: nn.Module) -> Optimizer:
    """The recipe's optimizer over the trainable parameters; on a CPU with a fused step, if it has one."""
    kind, options = getattr(torch.optim, OPTIMIZERS[parse(recipe.optimizer)[0]][0]), recipe.optimizer_options()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    plain = all(p.is_floating_point() and p.device.type == "cpu" for p in parameters)
    sparse = any(getattr(layer, "sparse", False) is True for layer in model.modules())
    if "fused" in inspect.signature(kind).parameters and plain and not sparse:
        asked = "foreach" in options or options.get("dampening")
        options = {"fused": not asked, **options}
    try:
        optimizer: Optimizer = kind(parameters, lr=recipe.initial_lr, **options)
    except (TypeError, ValueError) as error:
        raise InputError(f"optimizer {recipe.optimizer!r} cannot be made: {error}.") from error
    return optimizer


@contextmanager
def _means_of_batches(layers: list[_BatchNorm]) -> Iterator[None]:
    """Let these layers begin anew and take the plain mean over batches, as torch's `update_bn` does for all layers."""
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    try:
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
