"""What showing two samples to a model tells of it, and what every model must satisfy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from gradlex.data import Samples
from gradlex.errors import InputError
from gradlex.population import capture, channels_last, copy, install
from gradlex.runs._resources import native_bfloat16


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What showing two samples to a model tells of it."""

    num_classes: int
    """That it answers for."""
    multiply_adds: float
    """For one sample."""
    channels_last: bool
    """Whether it takes pictures, and weights, in that memory format."""
    bfloat16: bool
    """Whether the device and the model can compute in that autocast."""


def try_out(model: nn.Module, samples: Samples, device: torch.device) -> Tried:
    """Show the model two samples; the modes of its layers, evaluation or training, stay as they are."""
    inputs, _ = samples.clean(np.arange(min(2, len(samples))))
    # A clone, since pictures of one channel count as contiguous in both formats.
    inputs = inputs.clone(memory_format=torch.contiguous_format)
    modes = {layer: layer.training for layer in model.modules()}
    try:
        model.eval()
        num_classes, multiply_adds = _answer(model, inputs)
        _refuse_merging(model)
        return Tried(
            num_classes=num_classes,
            multiply_adds=multiply_adds,
            channels_last=takes_channels_last(model, inputs),
            bfloat16=native_bfloat16(device) and _takes_bfloat16(model, inputs, device),
        )
    finally:
        for layer, training in modes.items():
            layer.training = training


def _answer(model: nn.Module, inputs: Tensor) -> tuple[int, float]:
    """How many classes the model answers for, and its multiply-adds a sample."""
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            outputs = model(inputs)
    except Exception as error:  # whatever a model of the user's may raise
        raise InputError(
            f"the model cannot take inputs of the shape {tuple(inputs.shape)} and type {inputs.dtype}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(inputs):
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InputError(f"the model must return a tensor (samples, classes), got {shape}.")
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError("the model has no trainable parameter.")
    return int(outputs.shape[1]), counter.get_total_flops() / 2 / len(inputs)


def takes_channels_last(model: nn.Module, inputs: Tensor) -> bool:
    """Whether the model computes pictures in that memory format: one with `view` does not. It is left as it was."""
    pictures = inputs.ndim == 4
    return not pictures or _computes(
        model, lambda: channels_last(model)(inputs.clone(memory_format=torch.channels_last))
    )


def _takes_bfloat16(model: nn.Module, inputs: Tensor, device: torch.device) -> bool:
    with torch.autocast(device.type, dtype=torch.bfloat16):
        return _computes(model, lambda: model(inputs))


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


def _refuse_merging(model: nn.Module) -> None:
    """Refuse a model whose switch to evaluation changes its parameters: candidates are swapped in and out of it."""
    if all(type(layer).train is nn.Module.train for layer in model.modules()):
        return
    model.train()
    before = copy(capture(model))
    model.eval()
    for name, tensor in capture(model).items():
        if not torch.equal(tensor, before[name]):
            raise InputError(
                f"switching the model to evaluation changes its {name}, so its candidates could not be told apart: "
                "have it leave its weights alone (merge_weights=False for LoRA that merges, for example)."
            )


def check_width(width: int, num_classes: int) -> None:
    """Refuse a model that has no output for some class."""
    if width < num_classes:
        raise InputError(
            f"the model has {width} outputs, the labels go from 0 to {num_classes - 1}: "
            f"give its last layer {num_classes} outputs."
        )
