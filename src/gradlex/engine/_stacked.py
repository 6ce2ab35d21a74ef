"""The candidates of one worker trained together: their parameters stacked, one pass for all of them (torch.func.vmap).

With small networks a GPU spends its time waiting for the next kernel; p candidates in one pass need a p-th of the
kernels. Each candidate sees its own samples, augmented by its own stream, and takes its own steps: the result agrees
with candidates trained one by one up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from gradlex.data import Output, Samples, call
from gradlex.engine._context import autocast, seeded, settings
from gradlex.engine._worker import Candidate, Worker
from gradlex.errors import InputError, failing_as
from gradlex.population import (
    Batch,
    OptimizerState,
    Parent,
    State,
    all_finite,
    batches,
    capture,
    copy,
    deal,
    make_optimizer,
    moved,
    settings_of,
    sketch,
    tensors,
)
from gradlex.recipe import Recipe
from gradlex.selection import Indices
from gradlex.tasks import Task

_ELEMENTWISE = ("adadelta", "adagrad", "adam", "adamax", "adamw", "nadam", "radam", "rmsprop", "sgd")
"""Optimizers that treat every number of a parameter alone: stacked parameters take each candidate's own step."""
_OF_ALL = (
    "mu_product",
    "step",
)  # what these optimizers count for a whole parameter: candidates step together


def check_stacked(
    recipe: Recipe,
    model: nn.Module,
    samples: Samples,
    task: Task,
    device: torch.device,
    output: Output | None = None,
) -> None:
    """Refuse what cannot be trained together, by name. The model lies on the device."""
    size = recipe.require("batch_size")
    steps = sorted(
        {len(batches(subset, size)) for subset in deal(len(samples), recipe, recipe.branch)}, reverse=True
    )
    reasons = {
        "one candidate": recipe.require("population") == 1,
        "vary": bool(recipe.vary),
        "clip_norm": recipe.clip_norm is not None,
        "accumulate": recipe.accumulate != 1,
        "compile": recipe.compile,
        f"optimizer {recipe.optimizer}": recipe.optimizer.lower() not in _ELEMENTWISE,
        f"batch_size {size}, by which some candidates take {steps[0]} steps and others {steps[-1]}": len(
            steps
        )
        > 1,
    }
    for reason, holds in reasons.items():
        if holds:
            raise InputError(f"placement stacked does not go with {reason}: change that, or use resident.")
    modes = {layer: layer.training for layer in model.modules()}
    try:
        if not any(modes.values()):
            model.train()
        batch = tree_map(lambda t: t.to(device), samples.clean(np.arange(min(4, len(samples)))))
        state = _stacked(model, 2)
        pair = tree_map(lambda t: torch.stack([t] * 2), batch)
        losses, _ = _losses(model, output, task.loss, state, *pair)
        losses.sum().backward()  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever a model of the user's, or vmap, may raise
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"placement stacked does not go with this model, which torch.func.vmap cannot compute "
            f"({type(error).__name__}: {reason:.200}): use resident."
        ) from error
    finally:
        for layer, training in modes.items():
            layer.training = training


def train_stacked(
    worker: Worker, parent: Parent, indices: Sequence[int], subsets: Sequence[Indices], lr: float
) -> dict[int, Candidate]:
    """SubGD of several candidates, one pass a step."""
    recipe, generation, device, count = worker.recipe, parent.generation, worker.device, len(indices)
    with failing_as(f"the candidates {list(indices)} of generation {generation}"):
        worker.put(moved(copy(parent.state), device))
        worker.training_mode()
        state: dict[str, Tensor] = dict(_stacked(worker.model, count))
        optimizer = _optimizer(worker, parent, state, lr)
        setting = settings_of(recipe, parent)
        streams = [worker.augmented(subsets[index], generation, index, setting[index]) for index in indices]
        total: Tensor | None = None
        with settings(recipe), seeded(0, device):  # nobody draws: a network that does is refused
            for step in zip(*streams, strict=True):
                sizes = [int(batch.samples) for batch in step]
                for size in sorted(set(sizes)):  # even batches: at most two sizes
                    places = [place for place, own in enumerate(sizes) if own == size]
                    at = places if len(places) < count else slice(None)
                    losses, buffers = _gradients(worker, state, [step[place] for place in places], at)
                    total = torch.zeros(count, dtype=losses.dtype, device=device) if total is None else total
                    total[at] += losses * size
                    if isinstance(at, slice):
                        state |= buffers
                        continue
                    for name, values in buffers.items():
                        state[name][at] = values
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        assert total is not None
        means = total / torch.tensor([len(subsets[index]) for index in indices], device=device)
        keeps = recipe.momentum_at(generation + 1) == "inherit"
        candidates = {}
        for place, index in enumerate(indices):
            own = {name: _slice(tensor, place, parent.state[name]) for name, tensor in state.items()}
            worker.put(own)
            candidates[index] = Candidate(
                state=own,
                optimizer=_exported(optimizer, state, parent.state, place) if keeps else None,
                loss=float(means[place]) if all_finite(worker.model, means[place]) else None,
                sketch=sketch(own, parent.state, worker.trainable),
            )
        return candidates


def _stacked(model: nn.Module, count: int) -> State:
    """The model's state so many times over; what is trained requires gradients."""
    state = {name: torch.stack([tensor] * count) for name, tensor in capture(model).items()}
    for name, parameter in model.named_parameters():
        state[name].requires_grad_(parameter.requires_grad)
    return state


def _gradients(
    worker: Worker, state: State, step: Sequence[Batch], at: list[int] | slice
) -> tuple[Tensor, State]:
    """Add the gradients of the candidates at these places, whose batches have one size; their losses and buffers."""
    own = state if isinstance(at, slice) else {name: tensor[at] for name, tensor in state.items()}
    inputs, targets = tree_map(
        lambda *each: torch.stack(each), *((batch.inputs, batch.targets) for batch in step)
    )
    with autocast(worker.recipe, worker.device):
        losses, buffers = _losses(worker.model, worker.output, worker.loss, own, inputs, targets)
    losses.sum().backward()  # type: ignore[no-untyped-call]
    return losses.detach(), {name: tensor.detach() for name, tensor in buffers.items()}


def _losses(
    model: nn.Module, output: Output | None, loss: Any, state: State, inputs: Any, targets: Any
) -> tuple[Tensor, State]:
    """Each candidate's loss on its own batch, (candidates,), and the buffers that it leaves behind."""
    places, buffers = _places(model), {name for name, _ in model.named_buffers()}

    def one(own: dict[str, Tensor], batch: Any, wanted: Any) -> tuple[Tensor, State]:
        used = {place: own[name] for place, name in places.items()}
        outputs = call(
            lambda *args, **kwargs: functional_call(model, used, args, kwargs, tie_weights=False),
            batch,
            output=output,
        )
        # functional_call has written into `used` what the model put in the place of a buffer.
        return loss(outputs, wanted), {name: used[place] for place, name in places.items() if name in buffers}

    found: tuple[Tensor, State] = vmap(one, randomness="error")(dict(state), inputs, targets)
    return found


def _places(model: nn.Module) -> dict[str, str]:
    """Every place of a parameter or buffer in the model, and its name in a state: tied ones have several places.

    A layer that the model has twice is one place; functional_call itself would leave it with the stacked weights.
    """
    names = {id(tensor): name for name, tensor in tensors(model).items()}
    return {
        f"{layer_name}.{name}" if layer_name else name: names[id(tensor)]
        for layer_name, layer in model.named_modules()
        for name, tensor in (
            *layer.named_parameters(recurse=False, remove_duplicate=False),
            *layer.named_buffers(recurse=False, remove_duplicate=False),
        )
    }


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
