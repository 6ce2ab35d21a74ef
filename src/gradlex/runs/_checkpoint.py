"""One checkpoint: a Parent and the progress of its run, in one safetensors file that is written whole or not at all.

checkpoint/00000012-0f3a5c7e9b1d2f40.safetensors holds weights, buffers, optimizer state, the slots of promotion steps
and what selection remembers; its metadata holds the rest. The name carries the first digits of the file's SHA-256: a
file that is not what it was is never used.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from gradlex._files import parse_json, write_whole
from gradlex.population import OptimizerState, Parent, State

_KEPT = 2
_NAME = re.compile(r"(\d{8,})-([0-9a-f]{16})\.safetensors")


class DamagedError(Exception):
    """A checkpoint that must not be used, and why."""


def save_checkpoint(
    root: Path, parent: Parent, progress: dict[str, Any], *, keep: Collection[int] = ()
) -> None:
    """Write the checkpoint beside the others; keep the newest two, and those of the generations in `keep`."""
    content = {
        "generation": parent.generation,
        "progress": progress,
        "optimizer": None if parent.optimizer is None else _numbers(parent.optimizer),
        "slots": list(parent.slots),
    }
    data = safetensors.torch.save(_tensors(parent), {"gradlex": json.dumps(content)})
    root.mkdir(parents=True, exist_ok=True)
    for leftover in root.glob(".*.new"):  # of a crash in here
        leftover.unlink()
    written = root / f"{parent.generation:08d}-{_digest(data)}.safetensors"
    write_whole(written, data)
    others = [path for path in checkpoints(root) if path != written]
    replaced = [path for path in others if generation_of(path) == parent.generation]
    older = [path for path in others if path not in replaced][: 1 - _KEPT]
    for path in (*replaced, *(path for path in older if generation_of(path) not in keep)):
        path.unlink()


def checkpoints(root: Path) -> list[Path]:
    """The checkpoint files, oldest first. A kill may leave two of one generation: the later is last."""
    found = root.iterdir() if root.is_dir() else ()
    named = (path for path in found if _NAME.fullmatch(path.name))
    return sorted(named, key=lambda path: (generation_of(path), path.stat().st_mtime_ns))


def generation_of(path: Path) -> int:
    """The generation that a checkpoint is the parent of."""
    return int(path.name.partition("-")[0])


def set_aside(path: Path) -> Path:
    """Rename a checkpoint that cannot be used, so that it is neither read again nor counted; where it is now."""
    return path.replace(path.with_name(f"{path.name}.damaged"))


def load_checkpoint(path: Path, like: Parent, *, inherits: bool) -> tuple[Parent, dict[str, Any]]:
    """The Parent and progress of one checkpoint, in the memory formats of `like`; DamagedError unless all is sound."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    name = _NAME.fullmatch(path.name)
    if name is None or _digest(data) != name[2]:
        raise DamagedError(f"{path} has a wrong checksum")
    try:
        content = _metadata(data)
        tensors = safetensors.torch.load(data)
        generation, progress = content["generation"], content["progress"]
        if type(generation) is not int or generation != generation_of(path):
            raise DamagedError(f"{path} holds the checkpoint of generation {generation!r:.80}")
        state = _state(tensors, like, path)
        _check_metadata(content, tensors, state, path, inherits=inherits)
        parent = Parent(
            generation=generation,
            state=state,
            optimizer=_optimizer(tensors, content["optimizer"], state) if inherits else None,
            memory={name: tensor.numpy() for name, tensor in _under(tensors, "memory/").items()},
            slots={slot: _like(_under(tensors, f"slot/{slot}/"), state) for slot in content["slots"]},
        )
    except (ValueError, KeyError, AttributeError, TypeError, OverflowError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    return parent, progress


def _check_metadata(
    content: dict[str, Any], tensors: Mapping[str, Tensor], state: State, path: Path, *, inherits: bool
) -> None:
    """Refuse metadata that `save_checkpoint` does not write for such tensors."""
    optimizer, slots = content["optimizer"], content["slots"]
    numbers = optimizer if isinstance(optimizer, dict) else {}
    wrong = {
        "progress": not isinstance(content["progress"], dict),
        "optimizer": (inherits or optimizer is not None)
        and not (
            isinstance(optimizer, dict)
            and all(name in state and isinstance(values, dict) for name, values in numbers.items())
            and all(_is_number(value) for values in numbers.values() for value in values.values())
        ),
        "slots": not (
            isinstance(slots, list)
            and all(isinstance(slot, str) for slot in slots)
            and {label.partition("/")[0] for label in _under(tensors, "slot/")} <= set(slots)
        ),
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise DamagedError(f"{path} cannot be read (its {name} is {content[name]!r:.80})")


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _metadata(data: bytes) -> dict[str, Any]:
    """What a safetensors file says of itself: JSON behind eight bytes that hold its length."""
    header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
    content: dict[str, Any] = parse_json(header["__metadata__"]["gradlex"])
    return content


def _tensors(parent: Parent) -> dict[str, Tensor]:
    found = {f"state/{name}": tensor for name, tensor in parent.state.items()}
    for slot, values in parent.slots.items():
        found.update({f"slot/{slot}/{name}": tensor for name, tensor in values.items()})
    for name, values in (parent.optimizer or {}).items():
        found.update({f"optimizer/{key}/{name}": v for key, v in values.items() if isinstance(v, Tensor)})
    for name, array in parent.memory.items():
        found[f"memory/{name}"] = torch.from_numpy(array.copy())
    return {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}


def _numbers(optimizer: OptimizerState) -> dict[str, dict[str, Any]]:
    """What of the optimizer's state is not a tensor: step counts, None."""
    return {
        name: {key: v for key, v in values.items() if not isinstance(v, Tensor)}
        for name, values in optimizer.items()
    }


def _state(tensors: Mapping[str, Tensor], like: Parent, path: Path) -> State:
    found = _under(tensors, "state/")
    had = {name: (tuple(t.shape), t.dtype) for name, t in found.items()}
    wanted = {name: (tuple(t.shape), t.dtype) for name, t in like.state.items()}
    for name in {**wanted, **had}:
        if had.get(name) != wanted.get(name):
            raise DamagedError(
                f"{path} is the checkpoint of another model: {name} is {_described(had.get(name))} there and "
                f"{_described(wanted.get(name))} in this model"
            )
    return _like({name: found[name] for name in like.state}, like.state)


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _like(found: Mapping[str, Tensor], state: State) -> State:
    """The tensors in the memory format and on the device of the state's; others on the host, where they were made."""
    return {
        name: _formatted(tensor, state[name])
        if name in state and state[name].shape == tensor.shape
        else tensor
        for name, tensor in found.items()
    }


def _described(tensor: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return "absent" if tensor is None else f"{tensor[1]} of shape {tensor[0]}"


def _optimizer(
    tensors: Mapping[str, Tensor], numbers: dict[str, dict[str, Any]] | None, state: State
) -> OptimizerState | None:
    if numbers is None:
        return None
    found: dict[str, dict[str, Any]] = {name: dict(values) for name, values in numbers.items()}
    for label, tensor in _under(tensors, "optimizer/").items():
        key, name = label.split("/", 1)
        like = state[name]
        found[name][key] = _formatted(tensor, like) if tensor.shape == like.shape else tensor
    return found


def _formatted(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor's values in the memory format and on the device of `like`, in its own type."""
    return torch.empty_like(like, dtype=tensor.dtype).copy_(tensor)
