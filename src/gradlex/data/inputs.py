"""Inputs of any structure: a tensor, or a tuple, list or dict of tensors, nested as torch's pytree allows.

Samples lie along the first axis of every tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from gradlex.errors import InputError

Inputs: TypeAlias = "Tensor | tuple[Inputs, ...] | list[Inputs] | dict[str, Inputs]"

_BLOCK = 1 << 22  # numbers that are checked at once


def call(model: Callable[..., Any], inputs: Inputs) -> Tensor:
    """The model's output for `inputs`: model(x), model(*tuple) or model(**dict).

    An output that is not a tensor is unwrapped: its `logits` if it has some, or the first of a tuple.

    Examples:
        >>> from gradlex.data import call
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
        raise InputError(
            "the model must return a tensor, a tuple that begins with one, or an object with logits: wrap it in a "
            "module that does."
        )
    return outputs


def map_inputs(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Any:
    """Inputs of the same structure, with the function applied to every tensor."""
    return function(inputs) if isinstance(inputs, Tensor) else pytree.tree_map(function, inputs)


def leaves(inputs: Inputs) -> list[Any]:
    """The tensors of inputs, in the order of their structure."""
    return [inputs] if isinstance(inputs, Tensor) else pytree.tree_leaves(inputs)


def named_leaves(inputs: Inputs, name: str = "x") -> list[tuple[str, Any]]:
    """The tensors of inputs with what they are called in Python: x, x[0], x['mask']."""
    return [(name + pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(inputs)[0]]


def describe(inputs: Any) -> str:
    """Types and shapes, for messages: `torch.float32 of shape (8, 3)`, and by name in a structure."""
    if isinstance(inputs, Tensor):
        return f"{inputs.dtype} of shape {tuple(inputs.shape)}"
    if not isinstance(inputs, tuple | list | dict):
        return type(inputs).__name__
    return ", ".join(f"{name} {describe(leaf)}" for name, leaf in named_leaves(inputs)) or "nothing"


def checked_inputs(given: Any, name: str = "x") -> Any:
    """Arrays or tensors in any structure as tensors of finite numbers; 64-bit floats become float32."""
    if isinstance(given, Mapping) and not isinstance(given, dict):
        given = dict(given)  # such as the batches of Hugging Face's tokenizers
    inputs: Any = pytree.tree_map_with_path(
        lambda path, leaf: _as_tensor(leaf, name + pytree.keystr(path)), given, is_leaf=_is_array
    )
    lengths = {len(leaf) for leaf in leaves(inputs)}
    if len(lengths) != 1:
        raise InputError(
            f"{name} must hold tensors with one number of samples along the first axis, got {describe(inputs)}."
        )
    if isinstance(inputs, dict) and not all(isinstance(key, str) for key in inputs):
        raise InputError(f"{name} must have names of the model's arguments as keys, got {next(iter(inputs))!r}.")
    return inputs


def checked_targets(given: Any, name: str = "y") -> Tensor:
    """One tensor of targets: whole numbers as int64, fractions as float32; the task checks what they mean."""
    if not _is_array(list(given) if isinstance(given, tuple) else given):
        kind = type(given).__name__
        raise InputError(f"{name} must be one tensor or array, a target for each sample, got a {kind}.")
    return numeric(_as_tensor(given, name), name)


def numeric(targets: Tensor, name: str) -> Tensor:
    """Targets in a type that a task can compute with."""
    if targets.is_complex():
        raise InputError(f"{name} holds complex numbers: give their real and imaginary parts as two numbers.")
    if targets.dtype == torch.bool:
        return targets
    return targets.float() if targets.is_floating_point() else targets.to(torch.int64)


def _as_tensor(given: Any, name: str) -> Tensor:
    """An array or tensor as a tensor; copied only if torch can't share it or use its type."""
    tensor = given.detach() if isinstance(given, Tensor) else _from_array(given, name)
    if tensor.is_nested or tensor.layout != torch.strided or tensor.is_meta:
        raise InputError(f"{name} is a nested, sparse or meta tensor: give an ordinary one, such as {name}.to_dense().")
    if tensor.ndim == 0:
        raise InputError(f"{name} must hold samples along its first axis, got a single number.")
    if len(tensor) and tensor.numel() == 0:
        raise InputError(f"{name} contains no numbers: its shape is {tuple(tensor.shape)}.")
    if tensor.is_floating_point() and len(tensor):
        rows = max(1, _BLOCK // (tensor.numel() // len(tensor)))  # a whole mask would take much memory
        for start in range(0, len(tensor), rows):
            finite = torch.isfinite(tensor[start : start + rows])
            if not finite.all():
                at = start + int((~finite).nonzero()[0, 0])
                raise InputError(f"sample {at} of {name} contains NaN or infinity: fix or remove it.")
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def _from_array(given: Any, name: str) -> Tensor:
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(f"{name} is a masked array with missing values: fill them, or leave those samples out.")
    try:
        array = np.asarray(given)
        if array.dtype.kind == "u" and array.dtype != np.uint8:  # torch can't index these
            array = array.astype(np.int64)
        return torch.from_numpy(np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "W"]))
    except Exception as error:  # whatever the conversion of a user's object may raise
        raise InputError(
            f"{name} can't be made a tensor: it must hold numbers in arrays of one shape, got {printable(given):.60}. "
            f"For class names give np.unique({name}, return_inverse=True)[1]."
        ) from error


def _is_array(given: Any) -> bool:
    """Whether this is one array, perhaps written out as lists, and not a structure of several."""
    return not isinstance(given, dict | tuple) and not (isinstance(given, list) and _holds_arrays(given))


def _holds_arrays(given: Any) -> bool:
    if isinstance(given, tuple | list):
        return any(_holds_arrays(part) for part in given)
    return isinstance(given, Mapping) or (isinstance(given, Tensor | np.ndarray) and given.ndim > 0)


def printable(text: object) -> str:
    """Text as it may be printed: control characters, which a terminal would obey, are written out as `\\x1b`."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(text))
