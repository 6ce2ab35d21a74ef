"""What showing a few samples to a model reveals, once, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gradlex.data import Parts
from gradlex.data.inputs import call, describe, leaves, map_inputs
from gradlex.data.samples import Samples
from gradlex.errors import InputError, warn
from gradlex.population.state import Network
from gradlex.tasks import Classification, Task


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What two samples show of a model."""

    task: Task
    """With what it learned from the training part."""
    outputs: int
    """How many numbers the model returns for a sample."""
    channels_last: bool
    """Whether the model takes images in that memory format."""


def probe(model: nn.Module, parts: Parts, task: Task, device: torch.device) -> Probe:
    """Show the model the first samples of each part; it is as before, but lazy layers have their weights.

    InputError if the model can't take them, or the task can't learn them.
    """
    modes = [(layer, layer.training) for layer in model.modules()]
    inputs, targets = _first(parts.train, device)
    model.eval()
    if any(nn.parameter.is_lazy(parameter) for parameter in model.parameters()):
        _answered(model, inputs, len(targets), "training")
    network = Network(model)
    before = network.capture()
    try:
        network.install(network.shielded(before))
        outputs = _answered(model, inputs, len(targets), "training")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise InputError("the model has no trainable parameter: set requires_grad, or give another model.")
        task.check(inputs, targets if parts.train.targets is None else parts.train.targets, outputs)
        for name, part in (("validation", parts.validation), ("test", parts.test)):
            if part is not None:
                _check_part(name, part, model, task, device)
        task = task.fitted(outputs, _all_targets(parts.train, task))
        _check_task(task, outputs, targets)
        _warn_of_slips(model, outputs, task, modes)
        lay_channels_last(model)
        return Probe(
            task=task,
            outputs=1 if outputs.ndim == 1 else int(outputs.shape[1]),
            channels_last=_takes_channels_last(model, inputs),
        )
    finally:
        network.install(before)
        for layer, training in modes:
            layer.training = training


def _first(samples: Samples, device: torch.device) -> tuple[Any, Tensor]:
    inputs, targets = samples.clean(np.arange(min(2, len(samples))))
    # A clone, since images of one channel count as contiguous in both formats.
    return map_inputs(lambda t: t.to(device).clone(memory_format=torch.contiguous_format), inputs), targets.to(device)


def _all_targets(samples: Samples, task: Task) -> Tensor:
    """The training targets; a Dataset is read as far as the task needs them."""
    if samples.targets is not None:
        return samples.targets
    few = isinstance(task, Classification) and task.class_weights != "balanced"
    count = min(128, len(samples)) if few else len(samples)
    starts = range(0, count, 128)
    return torch.cat([samples.clean(np.arange(start, min(start + 128, count)))[1] for start in starts])


def _answered(model: nn.Module, inputs: Any, count: int, part: str) -> Tensor:
    try:
        with torch.no_grad():
            outputs = call(model, inputs)
    except InputError:
        raise
    except Exception as error:  # whatever a user's model may raise
        raise InputError(
            f"the model cannot take the {part} samples, {describe(inputs)}: {type(error).__name__}: {error}."
            f"{_dtype_hint(model, inputs)}"
        ) from error
    if outputs.ndim == 0 or len(outputs) != count:
        raise InputError(
            f"the model must return one output for each sample, got shape {tuple(outputs.shape)} for {count} samples."
        )
    return outputs


def _dtype_hint(model: nn.Module, inputs: Any) -> str:
    kinds = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    given = {leaf.dtype for leaf in leaves(inputs)}
    if len(kinds) != 1 or given == kinds:
        return ""
    cure = "the model (model.float())" if all(kind.is_floating_point for kind in given) else "the samples"
    return f" Its parameters are {kinds.pop()}: convert {cure}."


def _check_part(name: str, part: Samples, model: nn.Module, task: Task, device: torch.device) -> None:
    inputs, targets = _first(part, device)
    outputs = _answered(model, inputs, len(targets), name)
    try:
        task.check(inputs, targets if part.targets is None else part.targets, outputs)
    except InputError as error:
        raise InputError(f"in the {name} part: {error}") from error


def _check_task(task: Task, outputs: Tensor, targets: Tensor) -> None:
    """Raise an error unless a task's loss, errors and metrics are what they must be."""
    kind = type(task).__name__
    try:
        loss, errors = task.loss(outputs, targets), task.errors(outputs, targets)
        metrics = dict(task.metrics([(outputs, targets)]))
    except InputError:
        raise
    except Exception as error:  # whatever a user's task may raise
        raise InputError(
            f"the task {kind} cannot learn from outputs of shape {tuple(outputs.shape)} and targets of shape "
            f"{tuple(targets.shape)}: {type(error).__name__}: {error}."
        ) from error
    if not isinstance(loss, Tensor) or loss.ndim:
        raise InputError(f"the loss of {kind} must be one number, the mean of the batch, got {describe(loss)}.")
    if not isinstance(errors, Tensor) or errors.shape != (len(targets),):
        raise InputError(
            f"the errors of {kind} must be one number for each case, shape ({len(targets)},), got {describe(errors)}."
        )
    wanted = [measure.name for measure in task.measures]
    if set(wanted) != set(metrics):
        raise InputError(
            f"the metrics of {kind} must be what its measures name ({', '.join(wanted)}), got {', '.join(metrics)}."
        )


def _warn_of_slips(model: nn.Module, outputs: Tensor, task: Task, modes: list[tuple[nn.Module, bool]]) -> None:
    """Warn of what trains, but hardly as it was meant."""
    if isinstance(task, Classification) and outputs.ndim == 2 and outputs.shape[1] > 1 and task.criterion is None:
        sums = outputs.float().sum(dim=1)
        if outputs.min() >= 0 and torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
            warn(
                "the model's outputs are probabilities, so it seems to end in a softmax, which cross-entropy applies "
                "again: remove it."
            )
    training = dict(modes)
    for name, layer in model.named_modules():
        own = list(layer.parameters(recurse=False))
        frozen = isinstance(layer, _BatchNorm) and own and not any(p.requires_grad for p in own)
        if frozen and training[layer] and layer.running_mean is not None:
            warn(
                f"the parameters of the batch norm {name!r} are frozen, and training still changes its statistics: "
                "freeze them too with layer.eval()."
            )


def lay_channels_last(model: nn.Module) -> None:
    """Lay the tensors of four dimensions in the memory format in which convolutions are fastest."""
    for tensor in (*model.parameters(), *model.buffers()):  # model.to() fails if some have five
        if tensor.ndim == 4:
            tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)


def _takes_channels_last(model: nn.Module, inputs: Any) -> bool:
    """Whether the model, which lies in that memory format, takes such images; one with `view` doesn't."""
    own = map_inputs(lambda t: t.clone(memory_format=torch.channels_last) if t.ndim == 4 else t, inputs)
    try:
        with torch.no_grad():
            call(model, own)
    except (RuntimeError, TypeError, ValueError, AssertionError):  # torch's words, and a model's own checks
        return False
    return True
