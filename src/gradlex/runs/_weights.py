"""Weights as safetensors: contiguous, tied ones once, nothing that could run."""

from __future__ import annotations

import hashlib
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


def load_weights(model: nn.Module, path: Path, *, sha256: str | None = None) -> None:
    """Give the model the weights of a file; refused, with what differs, unless names and shapes are its own.

    With `sha256` the file must be the one it was when that was written.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}.") from error
    except (OSError, ValueError) as error:  # the latter: a name that no file system takes
        raise InputError(f"{path} cannot be read: {error}.") from error
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise InputError(f"{path} is damaged: its checksum is not the one in result.json. Restore the file.")
    try:
        found = safetensors.torch.load(data)
    except SafetensorError as error:
        raise InputError(f"{path} is not a sound safetensors file: {error}.") from error
    wanted = {name: tuple(t.shape) for name, t in persistent(model).items()}
    given = {name: tuple(found[name].shape) for name in sorted(found)}
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
