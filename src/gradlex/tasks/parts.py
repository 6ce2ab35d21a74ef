"""What the tasks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from gradlex.errors import InputError


def _several(given: Any) -> Any:
    """A list or an array as a tuple, and one number as a tuple of it."""
    given = given.tolist() if hasattr(given, "tolist") else given
    return tuple(given) if isinstance(given, list) else (given,) if isinstance(given, int | float) else given


Loss: TypeAlias = Annotated[Callable[[Any, Any], Tensor], "a function"]
"""Takes outputs and targets, and returns one number."""
Numbers: TypeAlias = Annotated[tuple[float, ...], Field(min_length=1), BeforeValidator(_several), "numbers"]


def full(outputs: Tensor) -> Tensor:
    """Outputs in at least float32: a loss of half-precision outputs is computed as autocast would."""
    return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs


def shown(given: Any) -> str:
    """The type and shape of something, for a message."""
    tensor = isinstance(given, Tensor)
    return f"{given.dtype} of shape {tuple(given.shape)}" if tensor else type(given).__name__


def check_finite(targets: Tensor) -> None:
    """Raise an error for targets that hold NaN or infinity."""
    finite = torch.isfinite(targets.reshape(len(targets), -1)).all(dim=1)
    if not finite.all():
        wrong = (~finite).nonzero().flatten()
        others = f" ({len(wrong)} are)" if len(wrong) > 1 else ""
        raise InputError(
            f"the target of sample {int(wrong[0])} is NaN or infinite{others}: correct such samples, or leave them out."
        )


def plain_options(task: Any, *names: str) -> dict[str, Any]:
    """The options of a task that are set, with tuples as JSON's lists."""
    values = ((name, getattr(task, name)) for name in names)
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values if v is not None}
