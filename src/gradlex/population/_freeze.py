"""Freeze parameters by patterns of their names, for fine-tuning."""

from __future__ import annotations

from fnmatch import fnmatchcase

from torch import nn

from gradlex.errors import InputError, did_you_mean
from gradlex.population._state import batch_norm_layers


def freeze(model: nn.Module, patterns: str) -> None:
    """Have the parameters that match one of the patterns, joined by commas, not be trained.

    A batch norm all of whose parameters are frozen rests in evaluation mode: its statistics are a part of what was
    learned before.
    """
    names = [name for name, _ in model.named_parameters()]
    wanted = [pattern.strip() for pattern in patterns.split(",")]
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in names):
            hint = did_you_mean(pattern, names)
            raise InputError(
                f"freeze {pattern!r} matches none of the model's {len(names)} parameters, {_first(names)}.{hint} "
                "* stands for any letters."
            )
    if not any(
        layer.training for layer in model.modules()
    ):  # it has been evaluated before; all of it is trained
        model.train()
    for name, parameter in model.named_parameters():
        if any(fnmatchcase(name, pattern) for pattern in wanted):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"freeze {patterns!r} leaves no parameter to train: keep the last layer out of it.")
    for layer in batch_norm_layers(model).values():
        own = list(layer.parameters(recurse=False))
        if own and not any(parameter.requires_grad for parameter in own):
            layer.eval()


def _first(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown}, ..., {names[-1]}" if len(names) > 4 else ", ".join(names)
