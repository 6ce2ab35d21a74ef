"""The candidates of one worker trained together: their parameters stacked, one pass for all of them (torch.func.vmap).

With small networks a GPU spends its time waiting for the next kernel; p candidates in one pass need a p-th of the
kernels. Each candidate sees its own samples, augmented by its own stream, and takes its own steps: the result agrees
with candidates trained one by one up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from gradlex.data import Samples, call
from gradlex.engine._context import autocast, seeded, settings
from gradlex.engine._worker import Candidate, Worker
from gradlex.errors import InputError, failing_as
from gradlex.population import (
    OptimizerState,
    Parent,
    State,
    all_finite,
    capture,
    copy,
    make_optimizer,
    moved,
    settings_of,
    sketch,
)
from gradlex.recipe import Recipe
from gradlex.selection import Indices
from gradlex.tasks import Task

_ELEMENTWISE = ("adadelta", "adagrad", "adam", "adamax", "adamw", "nadam", "radam", "rmsprop", "sgd")
"""Optimizers that treat every number of a parameter alone: stacked parameters take each candidate's own step."""
_OF_ALL = ("mu_product", "step")  # what these optimizers count for a whole parameter: candidates step together


def check_stacked(
    recipe: Recipe, model: nn.Module, samples: Samples, task: Task, device: torch.device
) -> None:
    """Refuse what cannot be trained together, by name."""
    population, size = recipe.require("population"), recipe.require("batch_size")
    least = recipe.samples_at(recipe.branch, len(samples)) // population
    reasons = {
        "one candidate": population == 1,
        "vary": bool(recipe.vary),
        "clip_norm": recipe.clip_norm is not None,
        "accumulate": recipe.accumulate != 1,
        "compile": recipe.compile,
        f"augment {recipe.augment}": "mix" in str(recipe.augment),
        f"optimizer {recipe.optimizer}": recipe.optimizer.lower() not in _ELEMENTWISE,
        f"batch_size {size}, which gives candidates of {least} and {least + 1} samples different numbers of steps": (
            math.ceil(least / size) != math.ceil((least + 1) / size)
            and recipe.samples_at(recipe.branch, len(samples)) % population != 0
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(f"placement stacked does not go with {reason}: change that, or use resident.")
    modes = {layer: layer.training for layer in model.modules()}
    before = copy(capture(model))
    try:
        model.train()
        inputs, targets = tree_map(lambda t: t.to(device), samples.clean(np.arange(min(4, len(samples)))))
        state = {name: torch.stack([tensor] * 2) for name, tensor in before.items()}
        for name, parameter in model.named_parameters():
            state[name].requires_grad_(parameter.requires_grad)
        pair = tree_map(lambda t: torch.stack([t] * 2), (inputs, targets))
        _losses(model, task.loss, state, *pair).sum().backward()  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever a model of the user's, or vmap, may raise
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"placement stacked does not go with this model, which torch.func.vmap cannot compute "
            f"({type(error).__name__}: {reason:.200}): use resident."
        ) from error
    finally:
        for layer, training in modes.items():
            layer.training = training
        for parameter in model.parameters():
            parameter.grad = None


def train_stacked(
    worker: Worker, parent: Parent, indices: Sequence[int], subsets: Sequence[Indices], lr: float
) -> dict[int, Candidate]:
    """SubGD of several candidates in one pass a step."""
    recipe, generation, device, count = worker.recipe, parent.generation, worker.device, len(indices)
    with failing_as(f"the candidates {list(indices)} of generation {generation}"):
        worker.put(moved(copy(parent.state), device))
        worker.training_mode()
        state = {name: torch.stack([t] * count) for name, t in capture(worker.model).items()}
        for name in worker.trainable:
            state[name].requires_grad_()
        optimizer = _optimizer(worker, parent, state, lr)
        streams = [
            worker.augmented(subsets[index], generation, index, settings_of(recipe, parent)[index])
            for index in indices
        ]
        total, samples = torch.zeros(count, device=device), np.zeros(count)
        with settings(recipe), seeded(0, device):  # nobody draws: a network that does is refused
            for step in zip(*streams, strict=True):
                sizes = [int(batch.samples) for batch in step]
                for size in sorted(set(sizes)):  # even batches: at most two sizes
                    places = [place for place, own in enumerate(sizes) if own == size]
                    at = torch.tensor(places, device=device)
                    inputs, targets = tree_map(
                        lambda *own: torch.stack(own), *((step[i].inputs, step[i].targets) for i in places)
                    )
                    own = {name: tensor[at] for name, tensor in state.items()}
                    with autocast(recipe, device):
                        losses = _losses(worker.model, worker.loss, own, inputs, targets)
                    losses.sum().backward()  # type: ignore[no-untyped-call]
                    with torch.no_grad():
                        total[at] += losses.detach().float() * size
                        for name, tensor in state.items():  # buffers have changed
                            if not tensor.requires_grad:
                                tensor[at] = own[name]
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                samples += sizes
        keeps = recipe.momentum_at(generation + 1) == "inherit"
        found = {}
        for place, index in enumerate(indices):
            own = {name: _slice(tensor, place, parent.state[name]) for name, tensor in state.items()}
            worker.put(own)
            loss = total[place] / float(samples[place])
            found[index] = Candidate(
                state=copy(own),
                optimizer=_exported(optimizer, state, parent.state, place) if keeps else None,
                loss=float(loss) if all_finite(worker.model, loss) else None,
                sketch=sketch(own, parent.state, worker.trainable),
            )
        return found


def _losses(model: nn.Module, loss: Any, state: State, inputs: Any, targets: Any) -> Tensor:
    """Each candidate's loss on its own batch: (candidates,)."""

    def one(own: dict[str, Tensor], batch: Any, wanted: Any) -> Tensor:
        outputs = call(lambda *args, **kwargs: functional_call(model, own, args, kwargs), batch)
        found: Tensor = loss(outputs, wanted)
        return found

    found: Tensor = vmap(one, randomness="error")(dict(state), inputs, targets)
    return found


def _optimizer(worker: Worker, parent: Parent, state: State, lr: float) -> Optimizer:
    """The optimizer of one candidate, over the stacked parameters of all."""
    momentum = worker.recipe.momentum_at(parent.generation)
    optimizer = make_optimizer(worker.recipe, worker.model, lr, worker.device.type, momentum)
    names: dict[Tensor, str] = {parameter: name for name, parameter in worker.model.named_parameters()}
    begun = {names[parameter]: values for parameter, values in optimizer.state.items()}
    if parent.optimizer is not None and momentum == "inherit":
        begun = {name: dict(values) for name, values in parent.optimizer.items()}
    for group in optimizer.param_groups:
        group["params"] = [state[names[parameter]] for parameter in group["params"]]
    optimizer.state.clear()
    for name, values in begun.items():
        count = len(state[name])
        optimizer.state[state[name]] = {
            key: torch.stack([v.to(worker.device)] * count)
            if isinstance(v, Tensor) and key not in _OF_ALL
            else (v.clone() if isinstance(v, Tensor) else v)
            for key, v in values.items()
        }
    return optimizer


def _exported(optimizer: Optimizer, state: State, like: State, place: int) -> OptimizerState:
    """One candidate's part of the optimizer's state."""
    found: dict[str, dict[str, Any]] = {}
    for name, tensor in state.items():
        if tensor in optimizer.state:
            found[name] = {
                key: _slice(v, place, like[name]) if isinstance(v, Tensor) and key not in _OF_ALL else v
                for key, v in optimizer.state[tensor].items()
            }
    return found


def _slice(stacked: Tensor, place: int, like: Tensor) -> Tensor:
    """One candidate's tensor, in the memory format of the parent's."""
    own = stacked.detach()[place]
    return torch.empty_like(like, dtype=own.dtype, device=own.device).copy_(own)
