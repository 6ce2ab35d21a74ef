"""Weights as safetensors: contiguous, tied ones once, nothing that could run."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from gradlex.errors import InputError
from gradlex.population import State, capture


def persistent(model: nn.Module, state: State | None = None) -> dict[str, Tensor]:
    """The model's parameters and persistent buffers, or those of another state, on the host, contiguous."""
    kept = set(model.state_dict())
    return {name: t.cpu().contiguous() for name, t in (state or capture(model)).items() if name in kept}


def weights_bytes(model: nn.Module, state: State) -> bytes:
    """What model.safetensors holds of a state of the model."""
    return safetensors.torch.save(persistent(model, state))


def load_weights(model: nn.Module, path: Path) -> None:
    """Give the model the weights of a file; refused, with what differs, unless names and shapes are its own."""
    try:
        found = safetensors.torch.load_file(path)
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}.") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a sound safetensors file: {error}.") from error
    wanted = {name: tuple(t.shape) for name, t in persistent(model).items()}
    given = {name: tuple(t.shape) for name, t in found.items()}
    given = {name: shape for name, shape in given.items() if name in wanted or name not in model.state_dict()}
    differences = [
        *(f"{name} is missing" for name in wanted if name not in given),
        *(f"{name} is not in the model" for name in given if name not in wanted),
        *(
            f"{name} has the shape {given[name]}, the model's has {wanted[name]}"
            for name in wanted
            if name in given and given[name] != wanted[name]
        ),
    ]
    if differences:
        more = f", and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise InputError(f"the weights in {path} do not fit the model: {'; '.join(differences[:3])}{more}.")
    live = model.state_dict()
    with torch.no_grad():
        for name in wanted:
            live[name].copy_(found[name])
