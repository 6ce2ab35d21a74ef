"""Probe: what showing a few samples to a model tells about it, once, before a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from gradlex._devices import native_bfloat16
from gradlex.data import Output, Samples, call, layout_hint
from gradlex.errors import InputError, refusing_as
from gradlex.population import capture, channels_last, copy, install
from gradlex.tasks import Task, check_samples, checked_task, fitted

_READ = 128  # samples of a Dataset that are read at once


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What two samples tell about a model."""

    task: Task
    """With what it takes from the training part."""
    outputs: Any
    """The model's outputs for them, on the host."""
    multiply_adds: float
    """For one sample."""
    channels_last: bool
    """Whether it takes images, and weights, in that memory format."""
    bfloat16: bool
    """Whether the device and the model can compute in that autocast."""


def probe(
    model: nn.Module,
    samples: Samples,
    task: Task,
    device: torch.device,
    output: Output | None = None,
    *,
    learns_from: Samples | None = None,
) -> Probe:
    """Show the model two samples; the modes of its layers, evaluation or training, stay as they are.

    `learns_from` are those that the task may take something from (default: all).
    """
    inputs, targets = tree_map(
        lambda tensor: tensor.to(device), samples.clean(np.arange(min(2, len(samples))))
    )
    # A clone, since images of one channel count as contiguous in both formats.
    inputs = tree_map(lambda tensor: tensor.clone(memory_format=torch.contiguous_format), inputs)
    modes = {layer: layer.training for layer in model.modules()}
    try:
        model.eval()
        outputs, multiply_adds = _answer(model, inputs, len(tree_leaves(targets)[0]), output=output)
        _check_read(model, inputs, outputs, output)
        check_samples(task, inputs, targets if samples.targets is None else samples.targets, outputs)
        task = checked_task(fitted(task, outputs, _all_targets(learns_from or samples)))
        metrics = _check_task(task, outputs, targets)
        if not _finite(metrics):  # two samples may be too few for a metric, such as a correlation
            _check_metrics(task, model, samples, device, output)
        _check_merging(model)
        return Probe(
            task=task,
            outputs=tree_map(lambda tensor: tensor.cpu(), outputs),
            multiply_adds=multiply_adds,
            channels_last=takes_channels_last(model, inputs),
            bfloat16=native_bfloat16(device) and _takes_bfloat16(model, inputs, device),
        )
    finally:
        for layer, training in modes.items():
            layer.training = training


def _all_targets(samples: Samples) -> Iterator[Any]:
    """The training targets, whole where they lie in memory; a Dataset's are read as far as they are asked for."""
    if samples.targets is not None:
        yield samples.targets
        return
    for _, targets in samples.clean_batches(_blocks(samples)):
        yield targets


def _blocks(samples: Samples) -> list[npt.NDArray[np.intp]]:
    return [np.arange(start, min(start + _READ, len(samples))) for start in range(0, len(samples), _READ)]


def check_takes(
    model: nn.Module, samples: Samples, what: str, device: torch.device, output: Output | None = None
) -> None:
    """Refuse samples that the model cannot take; it is in the mode it was in afterwards."""
    inputs = tree_map(lambda tensor: tensor.to(device), samples.clean(np.arange(1))[0])
    modes = {layer: layer.training for layer in model.modules()}
    try:
        _answer(model.eval(), inputs, 1, what=what, output=output)
    finally:
        for layer, training in modes.items():
            layer.training = training


def _answer(
    model: nn.Module, inputs: Any, count: int, what: str = "inputs", output: Output | None = None
) -> tuple[Any, float]:
    """The model's outputs, and its multiply-adds for one sample."""
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            outputs = call(model, inputs, output)
    except InputError:
        raise
    except Exception as error:  # whatever a model of the user's may raise
        shapes = ", ".join(f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in tree_leaves(inputs))
        hint = layout_hint(inputs)
        raise InputError(
            f"the model cannot take {what} of shape and type {shapes}: {type(error).__name__}: {error}"
            f"{f'. {hint}' if hint else ''}"
        ) from error
    first = tree_leaves(outputs)
    if first and isinstance(first[0], Tensor) and (first[0].ndim == 0 or len(first[0]) != count):
        raise InputError(
            f"the model must return one output per sample, got {tuple(first[0].shape)} for {count} samples."
        )
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError("the model has no trainable parameter.")
    return outputs, counter.get_total_flops() / 2 / count


class _Reading(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's
    """Notes the memory that operations read."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._places |= _places((args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    def unread(self, inputs: Mapping[str, Any]) -> list[str]:
        """The inputs that no operation has read."""
        return [name for name, own in inputs.items() if not self._places & _places(own)]


def _places(given: Any) -> set[int]:
    return {leaf.untyped_storage()._cdata for leaf in tree_leaves(given) if isinstance(leaf, Tensor)}


def _check_read(model: nn.Module, inputs: Any, outputs: Any, output: Output | None) -> None:
    """Refuse an input by name that the model takes but never reads, in `**kwargs` for example.

    It is one that no operation reads, neither in evaluation nor in training, and without which the outputs are the
    same: a mask that changes nothing for these samples is read.
    """
    if not isinstance(inputs, dict) or len(inputs) < 2:
        return
    with torch.no_grad(), _Reading() as reading:
        call(model, inputs, _anything)
        if reading.unread(inputs):
            _computes(model, lambda: call(model.train(), inputs, _anything))
    model.eval()
    for name in reading.unread(inputs):
        others = {key: value for key, value in inputs.items() if key != name}
        same = _computes(model, lambda given=others: _require_equal(call(model, given, output), outputs))  # type: ignore[misc]
        if same:
            raise InputError(
                f"the model takes the input {name!r} but never reads it: leave it out of the data, or have the "
                "model's forward use it."
            )


def _require_equal(one: Any, other: Any) -> None:
    pairs = zip(tree_leaves(one), tree_leaves(other), strict=True)
    if not all(isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b) for a, b in pairs):
        raise ValueError


def _check_task(task: Task, outputs: Any, targets: Any) -> dict[str, Any]:
    """The metrics; refused where the loss is no single number, errors are not one a case, or metrics are others."""
    count = len(tree_leaves(targets)[0])
    try:
        loss, errors = task.loss(outputs, targets), task.errors(outputs, targets)
        found = dict(task.metrics([(outputs, targets)]))
    except InputError:
        raise
    except Exception as error:  # whatever a task of the user's may raise
        raise InputError(
            f"{type(task).__name__} cannot learn from outputs of shape {_shape(outputs)} and targets of shape "
            f"{_shape(targets)}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(loss, Tensor) or loss.ndim != 0:
        raise InputError(f"the task's loss must be one number, the mean of the batch, got {_shape(loss)}.")
    if not isinstance(errors, Tensor) or errors.shape != (count,):
        raise InputError(f"the task's errors must be one number per case, ({count},), got {_shape(errors)}.")
    wanted = [measure.name for measure in task.measures]
    if not wanted or set(wanted) != set(found):
        raise InputError(
            f"the task's metrics must be those its measures name ({', '.join(wanted) or 'at least one'}), got "
            f"{', '.join(map(str, found)) or 'none'}."
        )
    return found


def _check_metrics(
    task: Task, model: nn.Module, samples: Samples, device: torch.device, output: Output | None
) -> None:
    """Refuse metrics of the training samples that are no finite numbers, though the outputs are."""
    sane = []

    def answers() -> Iterator[tuple[Any, Any]]:
        for batch in samples.clean_batches(_blocks(samples)):
            inputs, targets = tree_map(lambda tensor: tensor.to(device), batch)
            outputs = call(model, inputs, output)
            sane.append(all(bool(torch.isfinite(leaf).all()) for leaf in tree_leaves(outputs)))
            yield outputs, targets

    with torch.no_grad(), refusing_as(f"the metrics of {type(task).__name__}"):
        metrics = dict(task.metrics(answers()))
    if not _finite(metrics) and all(sane):
        name, value = next((name, value) for name, value in metrics.items() if not _finite({name: value}))
        raise InputError(
            f"the metric {name!r} of {type(task).__name__} must be a finite number, got {value!r:.80} for the "
            "training samples, though the network's outputs are finite."
        )


def _finite(metrics: Mapping[str, Any]) -> bool:
    return all(isinstance(value, Real) and math.isfinite(value) for value in metrics.values())


def _shape(given: Any) -> str:
    return str(tuple(given.shape)) if isinstance(given, Tensor) else type(given).__name__


def _anything(outputs: Any) -> Any:
    return outputs


def takes_channels_last(model: nn.Module, inputs: Any) -> bool:
    """Whether the model computes images in that memory format: one with `view` does not. It is left as it was."""
    images = any(tensor.ndim == 4 for tensor in tree_leaves(inputs))

    def formatted(tensor: Tensor) -> Tensor:
        return tensor.clone(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

    return not images or _computes(
        model, lambda: call(channels_last(model), tree_map(formatted, inputs), _anything)
    )


def _takes_bfloat16(model: nn.Module, inputs: Any, device: torch.device) -> bool:
    with torch.autocast(device.type, dtype=torch.bfloat16):
        return _computes(model, lambda: call(model, inputs, _anything))


def _computes(model: nn.Module, compute: Callable[[], object]) -> bool:
    """Whether this raises nothing; the model has taken the same inputs before, so nothing else can be wrong."""
    before = capture(model)
    install(model, copy(before))
    try:
        with torch.no_grad():
            compute()
    except (RuntimeError, TypeError, ValueError, AssertionError):  # torch's words, and a model's own checks
        return False
    finally:
        install(model, before)
    return True


def _check_merging(model: nn.Module) -> None:
    """Refuse a model whose switch to evaluation changes its parameters: candidates are swapped in and out of it."""
    if all(type(layer).train is nn.Module.train for layer in model.modules()):
        return
    model.train()
    before = copy(capture(model))
    model.eval()
    for name, tensor in capture(model).items():
        if not torch.equal(tensor, before[name]):
            raise InputError(
                f"switching the model to evaluation changes its {name}, so candidates cannot be swapped in and out: "
                "have it leave its weights alone (merge_weights=False for LoRA that merges, for example)."
            )
