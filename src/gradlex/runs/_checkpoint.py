"""One checkpoint: a Parent and the progress of its run, written whole or not at all, trusted only when whole.

checkpoint/00000012/ holds tensors.safetensors (weights, buffers, optimizer tensors, the outer
velocity, the moving average), memory.safetensors (what
the selection strategy remembers) and progress.json, which has the others' checksums and its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import safetensors.numpy
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from gradlex._disk import flush_folder, parse_json, write_durably
from gradlex.population import OptimizerState, Parent, State

_KEPT = 2
_NEW = ".new"
_TENSORS, _MEMORY, _PROGRESS = "tensors.safetensors", "memory.safetensors", "progress.json"


class DamagedError(Exception):
    """A checkpoint that must not be used, and why."""


def save_checkpoint(root: Path, parent: Parent, progress: dict[str, Any]) -> None:
    """Write the checkpoint beside the others under a temporary name, flush it, rename it; keep the newest two."""
    temporary = root / _NEW
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    files = {
        _TENSORS: safetensors.torch.save(_tensors(parent)),
        _MEMORY: safetensors.numpy.save(dict(parent.memory)),
    }
    content = {
        "generation": parent.generation,
        "progress": progress,
        "optimizer": None if parent.optimizer is None else _numbers(parent.optimizer),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    files[_PROGRESS] = json.dumps({**content, "checksum": _checksum(content)}, indent=2).encode()
    for name, data in files.items():
        write_durably(temporary / name, data)
    flush_folder(temporary)
    temporary.rename(root / _name(parent.generation))
    flush_folder(root)
    flush_folder(root.parent)
    for old in checkpoints(root)[:-_KEPT]:
        shutil.rmtree(old)


def checkpoints(root: Path) -> list[Path]:
    """The checkpoint folders, oldest first."""
    found = root.iterdir() if root.is_dir() else ()
    return sorted(path for path in found if re.fullmatch("[0-9]{8}", path.name) and path.is_dir())


def set_aside(folder: Path) -> Path:
    """Rename a checkpoint that cannot be used, so that it is neither read again nor counted; where it is now."""
    aside = folder.with_name(f"{folder.name}.damaged")
    if aside.exists():
        shutil.rmtree(aside)
    return folder.rename(aside)


def load_checkpoint(folder: Path, like: Parent, *, inherits: bool) -> tuple[Parent, dict[str, Any]]:
    """The Parent and progress of one checkpoint, in the memory formats of `like`; Damaged unless all is sound."""
    content = _read_progress(folder / _PROGRESS)
    try:
        data = {name: _read_checked(folder / name, content["sha256"][name]) for name in (_TENSORS, _MEMORY)}
        tensors = safetensors.torch.load(data[_TENSORS])
        memory = safetensors.numpy.load(data[_MEMORY])
        generation, progress = content["generation"], content["progress"]
        if _name(generation) != folder.name:
            raise DamagedError(f"{folder} holds the checkpoint of generation {generation}")
        state = _state(tensors, like, folder)
        optimizer = _optimizer(tensors, content["optimizer"], state) if inherits else None
        outer, ema = (_like(tensors, f"{part}/", state) or None for part in ("outer", "ema"))
    except (ValueError, KeyError, AttributeError, TypeError, SafetensorError) as error:
        raise DamagedError(f"{folder} cannot be read ({type(error).__name__}: {error})") from error
    parent = Parent(
        generation=generation, state=state, optimizer=optimizer, memory=memory, outer=outer, ema=ema
    )
    return parent, progress


def _read_progress(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = parse_json(path.read_bytes())
        sound = content.pop("checksum") == _checksum(content)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    if not sound:
        raise DamagedError(f"{path} has a wrong checksum")
    return content


def _read_checked(path: Path, expected: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    if hashlib.sha256(data).hexdigest() != expected:
        raise DamagedError(f"{path} has a wrong checksum")
    return data


def _name(generation: int) -> str:
    return f"{generation:08d}"


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _tensors(parent: Parent) -> dict[str, Tensor]:
    states = {"state": parent.state, "outer": parent.outer, "ema": parent.ema}
    found = {f"{part}/{name}": t for part, state in states.items() for name, t in (state or {}).items()}
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
    had = {name: (tuple(t.shape), t.dtype) for name, t in found.items()}
    wanted = {name: (tuple(t.shape), t.dtype) for name, t in like.state.items()}
    for name in {**wanted, **had}:
        if had.get(name) != wanted.get(name):
            raise DamagedError(
                f"{folder} is the checkpoint of another model: {name} is {_told(had.get(name))} there and "
                f"{_told(wanted.get(name))} in this model"
            )
    return {name: _formatted(found[name], t) for name, t in like.state.items()}


def _like(tensors: dict[str, Tensor], prefix: str, state: State) -> State:
    """The tensors whose labels begin so, by the rest of their labels, each in the format of the state's."""
    found = {label.removeprefix(prefix): t for label, t in tensors.items() if label.startswith(prefix)}
    return {name: _formatted(found[name], t) for name, t in state.items() if name in found}


def _told(tensor: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return "absent" if tensor is None else f"{tensor[1]} of shape {tensor[0]}"


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
