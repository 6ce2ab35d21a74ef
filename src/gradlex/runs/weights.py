"""Weights as .safetensors: names, shapes and numbers, nothing that could run."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from gradlex._files import check_file
from gradlex.data.inputs import check_memory
from gradlex.errors import InputError

_EXTRA = "gradlex.extra_state"


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers on the host, tied weights once, and what `get_extra_state` returns."""
    kept = model.state_dict()
    live = (*model.named_parameters(), *model.named_buffers())
    found = {name: tensor.detach().cpu().contiguous() for name, tensor in live if name in kept}
    extra = {name: value for name, value in kept.items() if name.endswith("_extra_state")}
    if extra:
        file = io.BytesIO()
        torch.save(extra, file)
        try:
            torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        except pickle.UnpicklingError as error:
            raise InputError(
                "the model's get_extra_state returns something that can't be stored: return tensors, numbers, text, or "
                "lists and dicts of them."
            ) from error
        found[_EXTRA] = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    return found


def read_weights(path: Path) -> dict[str, Tensor]:
    """What a .safetensors file holds."""
    check_file(path)
    check_memory(path.stat().st_size, str(path))
    try:
        return safetensors.torch.load(path.read_bytes())
    except SafetensorError as error:
        raise InputError(f"{path} is not a valid .safetensors file: {error}.") from error


def put_weights(model: nn.Module, found: Mapping[str, Tensor], path: Path) -> None:
    """Put weights that were read into a model; InputError unless names and shapes match."""
    for name in found:  # a buffer that is None until the first training pass
        owner, _, own = name.rpartition(".")
        layer = dict(model.named_modules()).get(owner)
        if layer is not None and layer._buffers.get(own, 0) is None:
            layer._buffers[own] = found[name]
    wanted, known = weights_of(model), model.state_dict()
    given = {name: t for name, t in found.items() if name in wanted or name not in known}  # others are tied
    differences = [
        *(f"{name} is missing" for name in wanted if name not in given),
        *(f"{name} is not in the model" for name in given if name not in wanted),
        *(
            f"{name} has the shape {tuple(given[name].shape)} there and {tuple(wanted[name].shape)} in the model"
            for name in wanted
            if name in given and given[name].shape != wanted[name].shape and name != _EXTRA
        ),
    ]
    if differences:
        more = f", and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise InputError(f"the weights in {path} don't fit the model: {'; '.join(differences[:3])}{more}.")
    extra = given.pop(_EXTRA, None)
    own = {} if extra is None else torch.load(io.BytesIO(extra.numpy().tobytes()), weights_only=True)
    model.load_state_dict({**given, **own}, strict=False)
