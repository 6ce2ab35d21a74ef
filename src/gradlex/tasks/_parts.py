"""What several tasks do alike: checks of targets, and losses in full precision."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gradlex.errors import InputError


def full(outputs: Tensor) -> Tensor:
    """Outputs in at least float32: a loss of half-precision outputs is computed so, as autocast would."""
    return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs


def shown(given: Any) -> str:
    """What something is, for a message."""
    if isinstance(given, Tensor):
        return f"{given.dtype} of shape {tuple(given.shape)}"
    return type(given).__name__


def plain_numbers(name: str, given: Any) -> tuple[float, ...]:
    """Several numbers, from a list or from one."""
    values = given if isinstance(given, list | tuple) else [given]
    fits = [isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values]
    if not values or not all(fits):
        raise InputError(f"{name} must be one number or a list of them, got {given!r:.80}.")
    return tuple(float(value) for value in values)


def check_finite(targets: Tensor) -> None:
    """Refuse targets that hold NaN or infinity."""
    if not targets.is_floating_point():
        return
    finite = torch.isfinite(targets.reshape(len(targets), -1)).all(dim=1)
    if not finite.all():
        wrong = (~finite).nonzero().flatten()
        raise InputError(
            f"the target of sample {int(wrong[0])} is NaN or infinite{_others(len(wrong))}: fix such samples, or "
            "leave them out."
        )


def check_labels(targets: Tensor, classes: int, ignored: int, what: str) -> None:
    """Refuse targets (samples, ...) of a class for each of many places that are no class numbers, or count nowhere."""
    if targets.is_floating_point() and not bool((targets == targets.round()).all()):
        raise InputError(
            f"classes of {what} must be whole numbers, got fractions: number the classes from 0."
        )
    counts = targets != ignored
    empty = ~counts.reshape(len(targets), -1).any(dim=1)
    if empty.any():
        first = int(empty.nonzero()[0])
        raise InputError(
            f"sample {first} has no {what} that count: all are {ignored}, which is ignored. Leave such samples out."
        )
    labels = targets[counts]
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0 or highest >= classes:
        raise InputError(
            f"the model has outputs for {classes} classes, the {what} go from {lowest} to {highest}: number the "
            f"classes from 0, give its last layer {highest + 1} outputs, or set ignore_index to what counts for "
            "nothing."
        )


def _others(count: int) -> str:
    return f" ({count} are)" if count > 1 else ""


@lru_cache(maxsize=64)
def constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A task's own numbers on a device: sent there once, not in every step."""
    return torch.tensor(values, dtype=dtype, device=device)
