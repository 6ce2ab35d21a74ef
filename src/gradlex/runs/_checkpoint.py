"""One checkpoint: a Parent and the progress of its run, written whole or not at all, trusted only when whole.

checkpoint/00000012/ holds tensors.safetensors (weights, buffers, optimizer tensors), memory.safetensors (what
the selection strategy remembers) and progress.json, which has the others' checksums and its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import safetensors.numpy
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from gradlex.errors import InputError
from gradlex.population import OptimizerState, Parent, State

_KEPT = 2
_NEW = ".new"


class DamagedError(Exception):
    """A checkpoint that must not be used, and why."""


def save_checkpoint(root: Path, parent: Parent, progress: dict[str, Any]) -> None:
    """Write the checkpoint beside the others under a temporary name, flush it, rename it; keep the newest two."""
    temporary = root / _NEW
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    files = {
        "tensors.safetensors": safetensors.torch.save(_tensors(parent)),
        "memory.safetensors": safetensors.numpy.save(dict(parent.memory)),
    }
    content = {
        "generation": parent.generation,
        "progress": progress,
        "optimizer": None if parent.optimizer is None else _numbers(parent.optimizer),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    files["progress.json"] = json.dumps({**content, "checksum": _checksum(content)}, indent=2).encode()
    for name, data in files.items():
        write_durably(temporary / name, data)
    _flush_folder(temporary)
    final = root / f"{parent.generation:08d}"
    if final.exists():  # the same generation again, after a damaged one was passed over
        shutil.rmtree(final)
    temporary.rename(final)
    _flush_folder(root)
    for old in checkpoints(root)[:-_KEPT]:
        shutil.rmtree(old)


def checkpoints(root: Path) -> list[Path]:
    """The checkpoint folders, oldest first."""
    return sorted(p for p in root.glob("[0-9]*") if p.is_dir()) if root.is_dir() else []


def load_checkpoint(folder: Path, like: Parent, *, inherits: bool) -> tuple[Parent, dict[str, Any]]:
    """The Parent and progress of one checkpoint, in the memory formats of `like`; Damaged unless all is sound."""
    try:
        content = json.loads((folder / "progress.json").read_bytes())
        checksum = content.pop("checksum")
        if checksum != _checksum(content):
            raise DamagedError(f"{folder / 'progress.json'} has a wrong checksum")
        data = {name: (folder / name).read_bytes() for name in content["sha256"]}
        for name, expected in content["sha256"].items():
            if hashlib.sha256(data[name]).hexdigest() != expected:
                raise DamagedError(f"{folder / name} has a wrong checksum")
        tensors = safetensors.torch.load(data["tensors.safetensors"])
        memory = safetensors.numpy.load(data["memory.safetensors"])
        progress: dict[str, Any] = content["progress"]
    except (OSError, ValueError, KeyError, AttributeError, TypeError, SafetensorError) as error:
        raise DamagedError(f"{folder} cannot be read ({type(error).__name__}: {error})") from error
    state = _state(tensors, like, folder)
    optimizer = _optimizer(tensors, content["optimizer"], state) if inherits else None
    return Parent(generation=content["generation"], state=state, optimizer=optimizer, memory=memory), progress


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened, and renames are durable by themselves
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _tensors(parent: Parent) -> dict[str, Tensor]:
    found = {f"state/{name}": tensor for name, tensor in parent.state.items()}
    for name, values in (parent.optimizer or {}).items():
        found.update({f"optimizer/{key}/{name}": v for key, v in values.items() if isinstance(v, Tensor)})
    return {name: tensor.cpu().contiguous() for name, tensor in found.items()}


def _numbers(optimizer: OptimizerState) -> dict[str, dict[str, Any]]:
    """What of the optimizer's state is not a tensor: step counts, None."""
    return {
        name: {key: v for key, v in values.items() if not isinstance(v, Tensor)}
        for name, values in optimizer.items()
    }


def _state(tensors: dict[str, Tensor], like: Parent, folder: Path) -> State:
    found = {name.removeprefix("state/"): t for name, t in tensors.items() if name.startswith("state/")}
    if set(found) != set(like.state) or any(found[n].shape != t.shape for n, t in like.state.items()):
        raise InputError(f"{folder} is the checkpoint of another model: names or shapes differ.")
    return {name: _formatted(found[name], t) for name, t in like.state.items()}


def _optimizer(
    tensors: dict[str, Tensor], numbers: dict[str, dict[str, Any]] | None, state: State
) -> OptimizerState | None:
    if numbers is None:
        return None
    found: dict[str, dict[str, Any]] = {name: dict(values) for name, values in numbers.items()}
    for label, tensor in tensors.items():
        if label.startswith("optimizer/"):
            _, key, name = label.split("/", 2)
            like = state[name]
            found[name][key] = _formatted(tensor, like) if tensor.shape == like.shape else tensor
    return found


def _formatted(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor's values in the memory format and on the device of `like`, in its own type."""
    return torch.empty_like(like, dtype=tensor.dtype).copy_(tensor)
