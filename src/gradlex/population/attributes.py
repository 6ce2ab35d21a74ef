"""Finds state that a module keeps in plain attributes, which no snapshot, checkpoint or process can carry over."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradlex.errors import InputError

_LOOKS = 3
_SMALL = 4096
"""Elements of a tensor whose values are compared; of larger ones, storage and version."""


class AttributeWatch:
    """Compares a module's attributes after each of the first few candidates.

    What only the first pass changes is a cache, unless it is a flag (`self.initialized = True`). What the next pass
    changes again would leak from one candidate into another: `self.steps += 1` counts the steps of all candidates, and
    in several processes each counts its own.
    """

    def __init__(self) -> None:
        self._before: dict[str, Any] = {}
        self._looks = 0

    def begin(self, module: nn.Module) -> None:
        """Note the attributes before a generation: what the caller has changed since the last one is theirs."""
        if self._looks <= _LOOKS:
            now = _attributes(module)
            self._before = now if self._looks else {key: value for key, value in now.items() if isinstance(value, bool)}

    def look(self, module: nn.Module) -> None:
        """Note the attributes after a candidate; raise an error if training has changed them."""
        if self._looks <= _LOOKS:
            before, now = self._before, _attributes(module)
            changed = [key for key, value in now.items() if key in before and not _same(before[key], value)]
            if changed:
                raise InputError(
                    f"training changes the model's attribute {changed[0]!r}, which is not part of its state: a "
                    "candidate would pass it on to the next one. Register it (self.register_buffer(name, tensor)), "
                    "return it from get_extra_state, or delete it in the body of the loop if it is only a log. If the "
                    "first batch sets it, pass one through the model first."
                )
            self._before = now
            self._looks += 1


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {
        f"{name}.{key}" if name else key: _frozen(value)
        for name, layer in module.named_modules()
        if not _carries_its_own(layer)
        for key, value in vars(layer).items()
        if key not in _TORCH | _made_by_hooks(layer) and _is_data(value)
    }


_TORCH = set(vars(nn.Module()))


def _carries_its_own(layer: nn.Module) -> bool:
    """Whether the layer saves its attributes, or is a metric (torchmetrics), which only measures."""
    metric = all(hasattr(layer, name) for name in ("update", "compute", "reset"))
    return metric or type(layer).get_extra_state is not nn.Module.get_extra_state


def _made_by_hooks(layer: nn.Module) -> set[str]:
    """What old weight norm and spectral norm compute before each pass."""
    return {hook.name for hook in layer._forward_pre_hooks.values() if hasattr(hook, "name")}


_COPIES: Mapping[type, Callable[[Any], Any]] = {
    np.ndarray: np.copy,
    set: frozenset,
    np.random.Generator: lambda generator: str(generator.bit_generator.state),
    random.Random: lambda generator: generator.getstate(),
    torch.Generator: lambda generator: (generator.get_state(), None),
}


def _is_data(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(_is_data(each) for each in value.values())
    if isinstance(value, list | tuple | deque | set):
        return bool(value) and all(_is_data(each) for each in value)
    if isinstance(value, Tensor):  # one with a history was computed in the last pass, and will be in the next one
        plain = value.layout is torch.strided and not value.is_inference() and not isinstance(value, nn.Parameter)
        return plain and value.grad_fn is None
    return isinstance(value, (int, float, complex, np.number, *_COPIES))


def _frozen(value: Any) -> Any:
    """The value for a later comparison; a large tensor stays where it is, with its version."""
    if isinstance(value, Tensor):
        return (value.detach().clone(), None) if value.numel() <= _SMALL else (value.detach(), value._version)
    if isinstance(value, Mapping):
        return {key: _frozen(each) for key, each in value.items()}
    if isinstance(value, list | tuple | deque):
        return [_frozen(each) for each in value]
    return next((copied(value) for kind, copied in _COPIES.items() if isinstance(value, kind)), value)


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, tuple) and isinstance(now, tuple) and isinstance(before[0], Tensor):
        (old, old_version), (new, new_version) = before, now
        if old.data_ptr() == new.data_ptr():
            return bool(old_version == new_version)
        return old.shape == new.shape and old.dtype == new.dtype and torch.equal(old, new)
    if isinstance(before, dict) and isinstance(now, dict):
        return before.keys() == now.keys() and all(_same(before[key], now[key]) for key in before)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(_same, before, now))
    if isinstance(before, np.ndarray | float | complex):
        return bool(np.array_equal(before, now, equal_nan=True))
    return bool(before == now)
