"""Weights as safetensors: contiguous, tied ones once, nothing that could run.

A run's result.json has the SHA-256 of its final weights: a file that is not what it was is never used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from gradlex.errors import InputError
from gradlex.population import State, capture
from gradlex.runs._folder import RunFolder


def persistent(model: nn.Module, state: State | None = None) -> dict[str, Tensor]:
    """The model's parameters and persistent buffers, or those of another state, on the host, contiguous."""
    kept = set(model.state_dict())
    return {name: t.cpu().contiguous() for name, t in (state or capture(model)).items() if name in kept}


def weights_bytes(model: nn.Module, state: State) -> bytes:
    """What model.safetensors holds of a state of the model."""
    return safetensors.torch.save(persistent(model, state))


def read_weights(path: Path) -> bytes:
    """What a file of weights holds; refused where it is a run's and not what it was when the run ended."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}.") from error
    except (OSError, ValueError) as error:  # the latter: a name that no file system takes
        raise InputError(f"{path} cannot be read: {error}.") from error
    wanted = weights_checksum(path)
    if wanted is not None and hashlib.sha256(data).hexdigest() != wanted:
        raise InputError(f"{path} is damaged: its checksum is not the one in result.json. Restore the file.")
    return data


def weights_checksum(path: Path) -> str | None:
    """What the run that a file of weights lies in says of it; None where it is no run's, or one of gradlex 0.1.0."""
    folder = RunFolder(path.parent)
    if not folder.holds_run or not (folder.path / "result.json").exists():
        return None
    found = folder.read_json("result.json").get("sha256")
    return found.get(path.name) if isinstance(found, dict) else None


def load_weights(model: nn.Module, path: Path) -> None:
    """Give the model the weights of a file; refused, with what differs, unless names and shapes are its own."""
    data = read_weights(path)
    try:
        found = safetensors.torch.load(data)
    except SafetensorError as error:
        raise InputError(f"{path} is not a sound safetensors file: {error}.") from error
    wanted = check_fit(model, {name: tuple(tensor.shape) for name, tensor in found.items()}, str(path))
    live = model.state_dict()
    with torch.no_grad():
        for name in wanted:
            live[name].copy_(found[name])


def check_fit(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], what: str) -> list[str]:
    """The names that a model needs; refused, with what differs, unless the weights have its names and shapes.

    Of tied weights one name is enough.
    """
    live = model.state_dict()
    wanted = {name: tuple(t.shape) for name, t in capture(model).items() if name in live}
    given = {name: shapes[name] for name in sorted(shapes) if name in wanted or name not in live}
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
        raise InputError(f"the weights in {what} do not fit the model: {'; '.join(differences[:3])}{more}.")
    return list(wanted)
