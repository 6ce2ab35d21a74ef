"""Inputs of any structure: made from arrays, described, and given to a model.

Inputs are a tensor, or a tuple, list or dict of tensors, nested as torch's pytree allows. Samples lie along the
first axis of every tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from gradlex.data._arrays import CHANNELS, escaped
from gradlex.errors import InputError

Inputs: TypeAlias = "Tensor | tuple[Inputs, ...] | list[Inputs] | dict[str, Inputs]"
"""A tensor, or a tuple, list or dict of them, nested."""

_BLOCK = 1 << 22  # numbers that are checked at once
_TOO_LARGE = 1 << 63
_INDEXED = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
)
_WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}
"""Types that torch stores but cannot index, and what holds their values."""


Output: TypeAlias = "str | int | Callable[[Any], Any]"
"""Which of a model's outputs is learnt: by name, by number, or by a function of what the model returns."""


def call(model: Callable[..., Any], inputs: Inputs, output: Output | None = None) -> Any:
    """The model's output for `inputs`: model(x), model(*tuple) or model(**dict).

    Where `output` does not say which, an output that is no tensor is unwrapped: its `logits` where it has some, or the
    first of a tuple.
    """
    if isinstance(inputs, Tensor):
        outputs = model(inputs)
    elif isinstance(inputs, Mapping):
        outputs = model(**inputs)
    else:
        outputs = model(*inputs)
    if output is not None:
        return _chosen(outputs, output)
    if isinstance(outputs, Tensor):
        return outputs
    unwrapped = getattr(outputs, "logits", None)
    if unwrapped is None and isinstance(outputs, tuple | list) and outputs:
        unwrapped = outputs[0]
    if not isinstance(unwrapped, Tensor):
        raise InputError(
            "the model must return a tensor, a tuple that begins with one, or an object with logits, got "
            f"{type(outputs).__name__}: say which of its outputs is learnt with output=, by name, number or function."
        )
    return unwrapped


def _chosen(outputs: Any, output: Output) -> Any:
    if callable(output):
        return output(outputs)
    try:
        if isinstance(output, str) and not isinstance(outputs, Mapping):
            return getattr(outputs, output)
        return outputs[output]
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        names = f" It has {', '.join(map(str, outputs))}." if isinstance(outputs, Mapping) else ""
        raise InputError(
            f"the model returns {type(outputs).__name__}, which has no output {output!r}.{names}"
        ) from error


def map_inputs(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Any:
    """Inputs of the same structure, with the function applied to every tensor."""
    return function(inputs) if isinstance(inputs, Tensor) else pytree.tree_map(function, inputs)


def leaves(inputs: Inputs) -> list[Tensor]:
    """The tensors of inputs, in the order of their structure."""
    return [inputs] if isinstance(inputs, Tensor) else pytree.tree_leaves(inputs)


def named_leaves(inputs: Inputs, name: str) -> list[tuple[str, Any]]:
    """The tensors of inputs with what they are called in Python: x, x[0], x['mask']."""
    if isinstance(inputs, Tensor):
        return [(name, inputs)]
    found = pytree.tree_flatten_with_path(inputs)[0]
    return [(name + pytree.keystr(path), leaf) for path, leaf in found]


def describe(inputs: Any, name: str = "x") -> str:
    """Types and shapes, for messages: `torch.float32 of shape (8, 3)`, and by name in a structure."""
    if isinstance(inputs, Tensor):
        return f"{inputs.dtype} of shape {tuple(inputs.shape)}"
    if not isinstance(inputs, tuple | list | dict):
        return type(inputs).__name__
    parts = [
        f"{place} {describe(leaf)}" if isinstance(leaf, Tensor) else f"{place} {type(leaf).__name__}"
        for place, leaf in named_leaves(inputs, name)
    ]
    return ", ".join(parts) or f"an empty {type(inputs).__name__}"


def layout_hint(inputs: Inputs) -> str:
    """What to do where images seem to lie channels-last; empty where they do not."""
    for name, leaf in named_leaves(inputs, "x"):
        if leaf.ndim == 4 and leaf.shape[3] in CHANNELS and leaf.shape[1] not in CHANNELS:
            _, height, width, channels = leaf.shape
            return (
                f"{name} looks like NHWC (N, {height}, {width}, {channels}); torch wants "
                f"(N, {channels}, {height}, {width}): {name}.permute(0, 3, 1, 2)"
            )
    return ""


def as_inputs(given: Any, name: str = "x") -> Any:
    """A structure of arrays or tensors as tensors; not copied where torch can share them."""
    if isinstance(given, Mapping) and not isinstance(given, dict):
        given = dict(given)  # such as the batches of Hugging Face's tokenizers
    if isinstance(given, Tensor | np.ndarray) or _is_array(given):
        return as_tensor(given, name)
    return pytree.tree_map_with_path(
        lambda path, leaf: as_tensor(leaf, name + pytree.keystr(path)), given, is_leaf=_is_array
    )


def checked_inputs(given: Any, name: str = "x") -> Any:
    """`as_inputs`, refused where samples could not be drawn from it or hold NaN or infinity."""
    inputs = as_inputs(given, name)
    named = named_leaves(inputs, name)
    if not named:
        raise InputError(f"{name} is an empty {type(given).__name__}: give a tensor, or several.")
    if isinstance(inputs, dict) and not all(isinstance(key, str) for key in inputs):
        raise InputError(
            f"{name} must have text as keys, the names of the model's arguments, got {next(iter(inputs))!r}."
        )
    lengths = {len(leaf) for _, leaf in named}
    if len(lengths) > 1:
        raise InputError(
            f"{name} holds tensors of different numbers of samples: {describe(inputs, name)}. The first axis of each "
            "must be the samples."
        )
    for place, leaf in named:
        if len(leaf) and leaf.numel() == 0:
            raise InputError(f"{place} contains no numbers: its shape is {tuple(leaf.shape)}.")
    places = iter([place for place, _ in named])
    inputs = map_inputs(lambda leaf: _indexable(leaf, next(places)), inputs)
    for place, leaf in named_leaves(inputs, name):
        _check_finite(leaf, place)
    return inputs


def checked_targets(given: Any, name: str = "y") -> Tensor:
    """One tensor of targets: whole numbers as int64, other numbers as they are, halves as float32.

    What they must be to be learnt, class numbers for example, is the task's business.
    """
    if isinstance(given, Mapping) or (isinstance(given, tuple) and _holds_arrays(given)):
        raise InputError(
            f"{name} must be one tensor or array, a target for each sample, got a {type(given).__name__}."
        )
    targets = as_tensor(given, name)
    if len(targets) and targets.numel() == 0:
        raise InputError(f"{name} contains no numbers: its shape is {tuple(targets.shape)}.")
    return numeric_targets(targets, name)


def numeric_targets(targets: Tensor, name: str) -> Tensor:
    """Targets in a type that torch can index and a task compute with."""
    if targets.is_complex():
        raise InputError(
            f"{name} holds complex numbers: give real ones, such as their real and imaginary parts."
        )
    targets = _indexable(targets, name)
    if targets.is_floating_point():
        return targets.float() if targets.dtype.itemsize < 4 else targets
    return targets if targets.dtype == torch.bool else targets.to(torch.int64)


def as_tensor(given: Any, name: str) -> Tensor:
    """An array or tensor as a tensor; copied only where torch could not share it (reversed, read-only)."""
    tensor = given.detach() if isinstance(given, Tensor) else _from_array(given, name)
    if tensor.is_nested:
        raise InputError(f"{name} is a nested tensor: pad it with torch.nested.to_padded_tensor.")
    if tensor.layout != torch.strided:
        raise InputError(f"{name} is a sparse tensor: give {name}.to_dense().")
    if tensor.is_meta:
        raise InputError(f"{name} is on the meta device and holds no values: give a tensor that does.")
    if tensor.ndim == 0:
        raise InputError(f"{name} must hold samples along its first axis, got a single number.")
    return tensor.resolve_conj().resolve_neg()


def _from_array(given: Any, name: str) -> Tensor:
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(
            f"{name} is a masked array with missing values: fill them, or leave those samples out."
        )
    try:
        array = np.asarray(given)
    except Exception as error:  # whatever the conversion of a user's object may raise
        raise InputError(f"{name} cannot be made a tensor: {escaped(error)}") from error
    if array.dtype.kind in "US" or (array.size and isinstance(array.flat[0], str)):
        text = str(array.flat[0])[:40] if array.size else ""
        raise InputError(
            f"{name} cannot be made a tensor: it holds text ({text!r}). Encode it as numbers; for "
            f"class names np.unique({name}, return_inverse=True)[1]."
        )
    if array.dtype.kind not in "biufc":
        held = "Python objects" if array.dtype.kind == "O" else array.dtype
        raise InputError(
            f"{name} cannot be made a tensor: it holds {held} ({type(given).__name__}), not numbers in arrays of one "
            "shape."
        )
    native = array.dtype.newbyteorder("=")
    try:
        return torch.from_numpy(np.require(array, dtype=native, requirements=["C", "W"]))
    except (TypeError, ValueError) as error:  # a number that torch has no type for, such as float128
        raise InputError(
            f"{name} cannot be made a tensor: torch has no {array.dtype}; use float64."
        ) from error


def _is_array(given: Any) -> bool:
    """Whether a list is an array written out, and not a structure of several arrays."""
    return isinstance(given, list) and not _holds_arrays(given)


def _holds_arrays(given: Any) -> bool:
    if isinstance(given, tuple | list):
        return any(_holds_arrays(part) for part in given)
    return isinstance(given, Mapping) or (isinstance(given, Tensor | np.ndarray) and given.ndim > 0)


def _check_finite(tensor: Tensor, name: str) -> None:
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
        return
    rows = max(1, _BLOCK // (tensor.numel() // len(tensor)))  # whole copies would take as much memory again
    for start in range(0, len(tensor), rows):
        block = tensor[start : start + rows]
        finite = torch.isfinite(block)
        if not finite.all():
            at = start + int((~finite).nonzero()[0, 0])
            raise InputError(f"sample {at} of {name} contains NaN or infinity: fix or remove it.")


def _indexable(tensor: Tensor, name: str) -> Tensor:
    """The same values in a type whose samples torch can pick by their numbers."""
    # torch compares no uint64: seen as int64, what is too large is negative.
    if tensor.dtype == torch.uint64 and (tensor.contiguous().view(torch.int64) < 0).any():
        raise InputError(f"{name} holds whole numbers of {_TOO_LARGE} and more, which do not fit into int64.")
    if tensor.dtype in _WIDER:
        return tensor.to(_WIDER[tensor.dtype])
    if tensor.is_quantized or tensor.dtype not in _INDEXED:
        raise InputError(
            f"{name} holds {tensor.dtype}, which torch computes little with: give {name}.float()."
        )
    return tensor
