"""Checkpoints from anywhere, read tensor by tensor: nothing in them is run, and nothing is held that was not asked for.

A checkpoint is a safetensors file, a state dict of torch.save (loaded with `weights_only`, mapped rather than read), a
run folder of gradlex, or a folder of Hugging Face's Trainer or of timm, in shards or whole. Files may come from
strangers: a pickle may name only what a state dict needs, an archive may hold nothing compressed, a tensor no more than
is stored of it.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import pickletools
import stat
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from gradlex._files import parse_json
from gradlex.errors import InputError
from gradlex.population import capture
from gradlex.runs import check_fit, weights_checksum

_LARGEST_PICKLE = 64 << 20
"""Bytes of the names and shapes in a state dict; a hundred thousand tensors take ten million."""
_LARGEST_INDEX = 64 << 20
_HARMLESS = {
    ("collections", "OrderedDict"),
    ("argparse", "Namespace"),  # timm keeps the options of its command beside the weights
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
    ("torch.nn.parameter", "Parameter"),
    *(("torch", f"{kind}Storage") for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int")),
    *(("torch", f"{kind}Storage") for kind in ("Short", "Char", "Byte", "Bool")),
    ("torch.storage", "UntypedStorage"),
}
_WRAPPERS = ("state_dict", "model_state_dict", "model", "state_dict_ema")
"""Where trainers keep the weights beside other things, in the order they are looked for."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One network's weights, read when they are asked for.

    Examples:
        >>> import torch
        >>> from gradlex.soups import open_checkpoint
        >>> checkpoint = open_checkpoint({"weight": torch.ones(2, 3)}, label="ones")
        >>> checkpoint.label, checkpoint.shapes["weight"]
        ('ones', (2, 3))
        >>> checkpoint.read("weight").sum()
        tensor(6.)
    """

    label: str
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor]
    """The tensor of a name, on the host."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where it came from: path, sha256."""


def persistent_names(model: nn.Module) -> dict[str, Tensor]:
    """The model's parameters and persistent buffers, live, tied ones once."""
    kept = set(model.state_dict())
    return {name: tensor for name, tensor in capture(model).items() if name in kept}


def open_checkpoint(
    source: nn.Module | Mapping[str, Any] | str | Path, label: str | None = None
) -> Checkpoint:
    """A network, a state dict in memory, or the path of a file or folder, as a checkpoint.

    Examples:
        >>> from gradlex.soups import open_checkpoint
        >>> checkpoint = open_checkpoint("runs/mine", label="mine")
        >>> name = next(iter(checkpoint.shapes))
        >>> checkpoint.read(name).shape == checkpoint.shapes[name]
        True
    """
    if isinstance(source, nn.Module):
        return _in_memory(persistent_names(source), label or type(source).__name__)
    if isinstance(source, Mapping):
        return _in_memory(_unwrapped(source, "the state dict"), label or "state dict")
    path = Path(source)
    try:
        if path.is_dir():
            return _folder(path, label or path.name)
        return _file(path, label or path.name)
    except OSError as error:
        raise InputError(f"the checkpoint {path} cannot be read: {error.strerror or error}.") from error


def check_alike(checkpoints: Sequence[Checkpoint], model: nn.Module) -> None:
    """Refuse checkpoints whose names or shapes are not the model's, with what differs."""
    for checkpoint in checkpoints:
        check_fit(model, checkpoint.shapes, checkpoint.label)


def _in_memory(state: Mapping[str, Tensor], label: str) -> Checkpoint:
    return Checkpoint(
        label=label,
        shapes={name: tuple(tensor.shape) for name, tensor in state.items()},
        read=lambda name: state[name].detach(),
        provenance={"source": "memory"},
    )


def _folder(path: Path, label: str) -> Checkpoint:
    if (path / "recipe.json").is_file():
        if not (path / "result.json").is_file():
            raise InputError(f"the run {path} is not finished: resume it first, or give one that is.")
        return _file(path / "model.safetensors", label)
    for name in ("model.safetensors", "pytorch_model.bin", "model_best.pth.tar", "last.pth.tar"):
        if (path / name).is_file():
            return _file(path / name, label)
        index = path / f"{name}.index.json"
        if index.is_file():
            return _shards(index, label)
    raise InputError(
        f"the folder {path} holds no checkpoint: it needs a recipe.json (a run of gradlex), model.safetensors or "
        "pytorch_model.bin (a Trainer, whole or with its index), or model_best.pth.tar (timm)."
    )


def _shards(index: Path, label: str) -> Checkpoint:
    """A checkpoint in several files, which its index lists."""
    if index.stat().st_size > _LARGEST_INDEX:
        raise InputError(f"{index} is larger than any index of shards: it is none.")
    try:
        places = parse_json(index.read_bytes())["weight_map"]
        files = {str(name): str(file) for name, file in places.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{index} is not an index of shards: {error!r}.") from error
    for file in set(files.values()):
        if Path(file).name != file or file in (".", ".."):
            raise InputError(
                f"{index} names {file!r}, which is outside of its folder: it may name files in it only."
            )
    parts = {file: _file(index.parent / file, file) for file in sorted(set(files.values()))}
    for name, file in files.items():
        if name not in parts[file].shapes:
            raise InputError(f"{index} says that {name} is in {file}, which does not hold it.")
    return Checkpoint(
        label=label,
        shapes={name: parts[file].shapes[name] for name, file in files.items()},
        read=lambda name: parts[files[name]].read(name),
        provenance={
            "path": str(index.parent),
            "sha256": {file: part.provenance["sha256"] for file, part in parts.items()},
        },
    )


def _file(path: Path, label: str) -> Checkpoint:
    if not stat.S_ISREG(path.stat().st_mode):  # a device or a pipe, perhaps behind a link, would have no end
        raise InputError(f"the checkpoint {path} is not a regular file.")
    digest, sha256 = _checksum(path), weights_checksum(path)
    if sha256 is not None and digest != sha256:
        raise InputError(f"{path} is damaged: its checksum is not the one in result.json. Restore the file.")
    provenance = {"path": str(path), "sha256": digest}
    if zipfile.is_zipfile(path):
        state = _unwrapped(_state_dict(path), str(path))
        return Checkpoint(
            label=label,
            shapes={name: tuple(tensor.shape) for name, tensor in state.items()},
            read=lambda name: state[name].detach(),
            provenance=provenance,
        )
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path} is neither a sound safetensors file nor a state dict of torch.save: {error}. Files of torch "
            "before 1.6 and whole pickled models are not read: save state_dict() again, best as safetensors."
        ) from error

    def read(name: str) -> Tensor:
        with safe_open(path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
            return tensor

    return Checkpoint(label=label, shapes=shapes, read=read, provenance=provenance)


def _state_dict(path: Path) -> Any:
    """What torch.save wrote, mapped from the file; refused unless it can be only tensors in plain containers."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_pickle(_pickle(archive, path), path)
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except InputError:
        raise
    except (pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, ValueError, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} is not a sound state dict of torch.save: {first}") from error
    except (EOFError, AttributeError, LookupError, OverflowError, MemoryError) as error:
        raise InputError(f"{path} is not a sound state dict of torch.save: {error!r}") from error


def _pickle(archive: zipfile.ZipFile, path: Path) -> bytes:
    """The pickle of an archive that can unpack to no more than its own size."""
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise InputError(
                f"{path} holds {member.filename!r} compressed, which torch.save never does: it may unpack to any size. "
                "Save the state dict again."
            )
    pickles = [member for member in archive.infolist() if member.filename.endswith("data.pkl")]
    if len(pickles) != 1:
        raise InputError(f"{path} is an archive, but no state dict of torch.save: it has no data.pkl.")
    if pickles[0].file_size > _LARGEST_PICKLE:
        raise InputError(f"{path} has a data.pkl of {pickles[0].file_size:,} bytes: a state dict's is small.")
    return archive.read(pickles[0])


def _check_pickle(data: bytes, path: Path) -> None:
    """Refuse a pickle that names anything but the parts of a state dict, before it is unpickled at all."""
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"):
            strings.append(str(argument))
        if opcode.name in ("GLOBAL", "INST"):
            named = tuple(str(argument).split(" ", 1))
        elif opcode.name == "STACK_GLOBAL":
            named = tuple(strings[-2:])
        elif opcode.name in ("EXT1", "EXT2", "EXT4"):
            named = ("copyreg", "extension")
        else:
            continue
        if named not in _HARMLESS:
            raise InputError(
                f"{path} is a pickle that wants {'.'.join(named)}, which no state dict needs: it may run code, so it "
                "is not loaded. Save model.state_dict() alone, best as safetensors."
            )


def _unwrapped(found: Any, what: str) -> dict[str, Tensor]:
    """The tensors by name, from a state dict or from what a trainer keeps it in."""
    for wrapper in _WRAPPERS:
        if isinstance(found, Mapping) and isinstance(found.get(wrapper), Mapping):
            found = found[wrapper]
            break
    if not isinstance(found, Mapping):
        raise InputError(
            f"{what} holds a {type(found).__name__}, not tensors by name: save model.state_dict()."
        )
    tensors = {str(name): tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}
    others = [name for name, value in found.items() if not isinstance(value, Tensor)]
    if others or not tensors:
        held = f"{others[0]!r} is a {type(found[others[0]]).__name__}" if others else "it is empty"
        raise InputError(f"{what} is not a state dict of tensors: {held}. Save model.state_dict().")
    for name, tensor in tensors.items():
        _check_tensor(name, tensor, what)
    prefix = "module."  # of DataParallel
    if all(name.startswith(prefix) for name in tensors):
        return {name[len(prefix) :]: tensor for name, tensor in tensors.items()}
    return tensors


def _check_tensor(name: str, tensor: Tensor, what: str) -> None:
    """Refuse a tensor that would take more memory than its storage when it is copied."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise InputError(
            f"{what}: {name} is no plain tensor ({tensor.layout}, {tensor.dtype}, {tensor.device})."
        )
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise InputError(
            f"{what}: {name} claims the shape {tuple(tensor.shape)}, more than is stored of it: it is not loaded."
        )


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
