"""Inputs of any structure: a tensor, or a tuple or dict of tensors. Samples lie along each tensor's first axis."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from gradlex.errors import InputError

Inputs: TypeAlias = "Tensor | tuple[Inputs, ...] | list[Inputs] | dict[str, Inputs]"


def call(model: Callable[..., Any], inputs: Inputs) -> Tensor:
    """The model's output for `inputs`: model(x), model(*tuple) or model(**dict).

    An output that is not a tensor is unwrapped: its `logits` if it has some, or the first of a tuple.

    Examples:
        >>> from gradlex.data.inputs import call
        >>> call(lambda a, b: (a + b, "more"), (torch.ones(2), torch.ones(2)))
        tensor([2., 2.])
    """
    if isinstance(inputs, Tensor):
        outputs = model(inputs)
    elif isinstance(inputs, Mapping):
        outputs = model(**inputs)
    else:
        outputs = model(*inputs)
    if not isinstance(outputs, Tensor):
        first = outputs[0] if isinstance(outputs, tuple | list) and outputs else None
        outputs = getattr(outputs, "logits", first)
    if not isinstance(outputs, Tensor):
        raise InputError("the model must return a tensor, a tuple that begins with one, or an object with logits.")
    return outputs


def map_inputs(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Any:
    """Inputs of the same structure, with the function applied to every tensor."""
    return function(inputs) if isinstance(inputs, Tensor) else pytree.tree_map(function, inputs)


def leaves(inputs: Inputs) -> list[Any]:
    """The tensors of inputs, in the order of their structure."""
    return [inputs] if isinstance(inputs, Tensor) else pytree.tree_leaves(inputs)


def named_leaves(inputs: Inputs, name: str) -> list[tuple[str, Any]]:
    """The tensors of inputs, called as in Python: x, x[0], x['mask']."""
    return [(name + pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(inputs)[0]]


def describe(inputs: Any) -> str:
    """Types and shapes, for messages: `torch.float32 of shape (8, 3)`, and by name in a structure."""
    if isinstance(inputs, Tensor):
        return f"{inputs.dtype} of shape {tuple(inputs.shape)}"
    if not isinstance(inputs, tuple | list | dict):
        return type(inputs).__name__
    return ", ".join(f"{name} {describe(leaf)}" for name, leaf in named_leaves(inputs, "x")) or "nothing"


def checked_inputs(given: Any, name: str = "x") -> Any:
    """Arrays or tensors, perhaps in tuples and dicts, as tensors of finite numbers; 64-bit floats become float32."""
    inputs: Any = pytree.tree_map_with_path(
        lambda path, leaf: _as_tensor(leaf, name + pytree.keystr(path)),
        dict(given) if isinstance(given, Mapping) else given,
        is_leaf=lambda part: not isinstance(part, dict | tuple),
    )
    if len({len(leaf) for leaf in leaves(inputs)}) != 1:
        raise InputError(f"{name} must hold tensors with the same number of samples, got {describe(inputs)}.")
    return inputs


def checked_targets(given: Any, name: str = "y") -> Tensor:
    """One tensor of targets; the task checks what they mean."""
    return numeric(_as_tensor(given, name), name)


def numeric(targets: Tensor, name: str) -> Tensor:
    """Targets as int64, float32 or booleans."""
    if targets.is_complex():
        raise InputError(f"{name} must be real numbers, got {targets.dtype}.")
    if targets.dtype == torch.bool:
        return targets
    return targets.float() if targets.is_floating_point() else targets.to(torch.int64)


def _as_tensor(given: Any, name: str) -> Tensor:
    """An array or tensor as a tensor; copied only if torch can't share it or use its type."""
    try:
        if isinstance(given, Tensor):
            tensor = given.detach()
        else:
            array = np.asarray(np.ma.filled(given, np.nan))
            if array.dtype.kind == "u" and array.dtype != np.uint8:  # torch can't index these
                array = array.astype(np.int64)
            tensor = torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
        # A mask of all numbers would take much memory.
        extremes = tensor.aminmax() if tensor.is_floating_point() and tensor.numel() else ()
        finite = all(bool(extreme.isfinite()) for extreme in extremes)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} must hold numbers in ordinary tensors or arrays of one shape, got {printable(given):.60}. "
            "Turn class names into numbers with np.unique(names, return_inverse=True)[1]."
        ) from error
    if not finite:
        at = int((~tensor.isfinite()).nonzero()[0, 0])
        raise InputError(f"sample {at} of {name} contains NaN or infinity: fix or remove it.")
    if tensor.ndim == 0 or (len(tensor) and tensor.numel() == 0):
        raise InputError(f"{name} must hold samples along its first axis, got the shape {tuple(tensor.shape)}.")
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def check_memory(size: int, what: str) -> None:
    """Raise an error for data that is larger than this machine's memory."""
    if size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise InputError(f"{what}: {size:,} bytes don't fit into memory: use a part of the data, or smaller images.")


def printable(text: object) -> str:
    """Text as it may be printed: control characters, which a terminal would obey, are written out as `\\x1b`."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))
