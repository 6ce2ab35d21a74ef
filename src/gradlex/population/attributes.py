"""Finds state that a module keeps in plain attributes, which no snapshot, checkpoint or process can carry over."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradlex.errors import InputError

_LOOKS = 3


class AttributeWatch:
    """Compares a module's attributes after each of the first few candidates.

    What only the first pass changes is a cache. What the next pass changes again would leak from one candidate into
    another: `self.steps += 1` counts the steps of all candidates, and in several processes each counts its own.
    """

    def __init__(self) -> None:
        self._before: dict[str, Any] | None = None
        self._looks = 0

    def look(self, module: nn.Module) -> None:
        """Note the attributes after a candidate was trained, and raise an error if training changes them."""
        if self._looks > _LOOKS:
            return
        now = {
            f"{name}.{key}" if name else key: _frozen(value)
            for name, layer in module.named_modules()
            if not _carries_its_own(layer)
            for key, value in vars(layer).items()
            if key not in _TORCH and _is_data(value)
        }
        if self._before is not None:
            changed = [key for key, value in now.items() if key in self._before and not _same(self._before[key], value)]
            if changed:
                raise InputError(
                    f"training changes the model's attribute {changed[0]!r}, which is not part of its state: a "
                    "candidate would pass it on to the next one. Register it (self.register_buffer(name, tensor)), "
                    "return it from get_extra_state, or keep it outside the model if it is only a log."
                )
        self._before = now
        self._looks += 1


_TORCH = set(vars(nn.Module()))


def _carries_its_own(layer: nn.Module) -> bool:
    """Whether the layer saves its attributes, or is a metric (torchmetrics), which only measures."""
    metric = all(hasattr(layer, name) for name in ("update", "compute", "reset"))
    return metric or type(layer).get_extra_state is not nn.Module.get_extra_state


def _is_data(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(_is_data(each) for each in value.values())
    if isinstance(value, list | tuple | deque):
        return bool(value) and all(_is_data(each) for each in value)
    if isinstance(value, Tensor):  # one with a history was computed in the last pass, and will be in the next one
        return value.grad_fn is None and not value.is_inference() and not isinstance(value, nn.Parameter)
    return isinstance(value, int | float | complex | np.ndarray | np.number) and not isinstance(value, bool)


def _frozen(value: Any) -> Any:
    """The value for a later comparison; a tensor stays where it is, with its version."""
    if isinstance(value, Tensor):
        return value.detach(), value._version
    if isinstance(value, Mapping):
        return {key: _frozen(each) for key, each in value.items()}
    if isinstance(value, list | tuple | deque):
        return [_frozen(each) for each in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, tuple) and isinstance(now, tuple):  # tensors
        (old, old_version), (new, new_version) = before, now
        if old.data_ptr() == new.data_ptr():
            return bool(old_version == new_version)
        return old.shape == new.shape and old.dtype == new.dtype and torch.equal(old, new)
    if isinstance(before, dict) and isinstance(now, dict):
        return before.keys() == now.keys() and all(_same(before[key], now[key]) for key in before)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(_same, before, now))
    return bool(np.array_equal(before, now, equal_nan=True))
