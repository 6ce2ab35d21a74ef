"""A pretend accelerator: torch's PrivateUse1 backend, whose tensors are CPU tensors behind a wall.

Every operation is computed by the CPU, with the CPU's bits, but a tensor of the device and one of the host do not mix,
random numbers come from the device's own generator, and each copy over the wall is counted. Registering a backend
changes the whole process, so only processes of their own import this file.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"


class Crossing(NamedTuple):
    """One copy between host and device."""

    way: str
    """`in` to the device, `out` of it; `wait` where the host asks for a number or a decision."""
    nbytes: int
    shape: tuple[int, ...]
    asynchronous: bool = False
    """From pinned memory, and not waited for."""


has_float64 = True
"""Some accelerators have no double precision (MPS): without it, a tensor of that type cannot be made."""
devices = 1
"""How many there are; all of them are the first one's tensors."""
made_current: list[tuple[str, int]] = []
"""Each call of set_device: the device, and how many copies had crossed by then."""
crossings: list[Crossing] = []
launched: Counter[str] = Counter()
"""How often each operation was computed on the device."""


@contextmanager
def counted() -> Iterator[list[Crossing]]:
    """The copies made inside."""
    found: list[Crossing] = []
    start = len(crossings)
    yield found
    found += crossings[start:]


class Pretend(Tensor):
    """A tensor of the device: its metadata, and the CPU tensor that holds its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Pretend:
        if held.dtype in (torch.float64, torch.complex128) and not has_float64:
            raise TypeError(f"{NAME} has no {held.dtype}.")
        found = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )
        found.held = held
        return found

    def __repr__(self) -> str:
        return f"Pretend({self.held!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"a tensor on {NAME} has no array: use .cpu() first.")

    @property
    def data(self) -> Any:
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, other: Tensor) -> None:
        torch.Tensor.data.__set__(self, other)
        self.held = other.held

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if operation in _COPIES:
            return _COPIES[operation](*args, **kwargs)
        if operation in _ASKING:
            crossings.append(Crossing("wait", args[0].nbytes, tuple(args[0].shape)))
        else:
            _check_alike(operation, (*args, *kwargs.values()))
        launched[str(operation)] += 1
        with _generator(operation):
            result = operation(*map(_held, args), **{name: _held(value) for name, value in kwargs.items()})
        return _returned(operation, result, args, kwargs)


def _held(value: Any) -> Any:
    if isinstance(value, Pretend):
        return value.held
    if isinstance(value, torch.device) and value.type == NAME:
        return torch.device("cpu")
    return [_held(part) for part in value] if isinstance(value, list | tuple) else value


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Every tensor among an operation's arguments, also in lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _check_alike(operation: Any, values: Iterable[Any]) -> None:
    """Numbers of the host may go along, as in any kernel's arguments; what has a shape may not."""
    for value in _tensors(values):
        if not isinstance(value, Pretend) and value.ndim:
            raise RuntimeError(
                f"{operation} mixes devices: a tensor {tuple(value.shape)} on {value.device} beside some on {NAME}."
            )


def _returned(operation: Any, result: Any, args: Any, kwargs: Any) -> Any:
    """The results as tensors of the device; one that was written to is itself."""
    known = {id(t.held): t for t in _tensors((*args, *kwargs.values())) if isinstance(t, Pretend)}

    def back(value: Any) -> Any:
        if not isinstance(value, Tensor) or operation in _ASKING:
            return value
        if id(value) in known:
            found = known[id(value)]
            if found.shape != value.shape:
                raise NotImplementedError(f"{operation} changes the shape of a tensor in place.")
            return found
        return Pretend(value)

    return type(result)(map(back, result)) if isinstance(result, list | tuple) else back(result)


def _to_copy(source: Any, *, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Tensor:
    """To another type, memory format or device; only tensors of the device come here."""
    if device is None or torch.device(device).type == NAME:
        return Pretend(torch.ops.aten._to_copy.default(source.held, **kwargs))
    crossings.append(Crossing("out", source.nbytes, tuple(source.shape)))
    return torch.ops.aten._to_copy.default(source.held, **kwargs)


def _copy(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    ours, theirs = isinstance(target, Pretend), isinstance(source, Pretend)
    if ours and not theirs:
        crossings.append(
            Crossing("in", source.nbytes, tuple(source.shape), non_blocking and source.is_pinned())
        )
    elif theirs and not ours:
        crossings.append(Crossing("out", source.nbytes, tuple(source.shape)))
    torch.ops.aten.copy_.default(_held(target), _held(source))
    return target


def _storageless(target: Any, *args: Any) -> Any:
    raise NotImplementedError("a pretend tensor has no storage that could be replaced.")


_aten = torch.ops.aten
_COPIES = {
    _aten._to_copy.default: _to_copy,
    _aten.copy_.default: _copy,
    _aten.set_.source_Tensor: _storageless,
}
_ASKING = {_aten._local_scalar_dense.default, _aten.equal.default, _aten.is_nonzero.default}

# The device's own generator: a state of the CPU's, swapped in while an operation of the device draws.

_lock = threading.RLock()
_state = torch.Generator().manual_seed(0).get_state()


@contextmanager
def _generator(operation: Any) -> Iterator[None]:
    global _state  # noqa: PLW0603  # the device has one
    if torch.Tag.nondeterministic_seeded not in operation.tags:
        yield
        return
    with _lock:
        hosts = torch.default_generator.get_state()
        torch.default_generator.set_state(_state)
        try:
            yield
            _state = torch.default_generator.get_state()
        finally:
            torch.default_generator.set_state(hosts)


class Module:
    """What torch.get_device_module gives for the device."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def device_count() -> int:
        return devices

    @staticmethod
    def set_device(device: Any) -> None:
        made_current.append((str(device), len(crossings)))

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16]

    @staticmethod
    def manual_seed(seed: int) -> None:
        global _state  # noqa: PLW0603
        _state = torch.Generator().manual_seed(seed).get_state()

    manual_seed_all = manual_seed

    @staticmethod
    def get_rng_state(device: Any = NAME) -> Tensor:
        return _state.clone()

    @staticmethod
    def set_rng_state(state: Tensor, device: Any = NAME) -> None:
        global _state  # noqa: PLW0603
        _state = state.clone()


_setup_privateuseone_for_python_backend(rename=NAME, backend_module=Module())

# What makes a tensor from nothing has no tensor to be dispatched by.
_library = torch.library.Library("aten", "IMPL")
_FACTORIES = (
    *("empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step", "full"),
    *("zeros", "ones", "eye", "linspace", "randperm", "scalar_tensor"),
)


def _factory(name: str) -> Any:
    base, _, overload = name.partition(".")
    operation = getattr(getattr(torch.ops.aten, base), overload or "default")

    def make(*args: Any, device: Any = None, pin_memory: Any = None, **kwargs: Any) -> Pretend:
        with _generator(operation):
            return Pretend(operation(*args, **kwargs))

    return make


for _name in _FACTORIES:
    _library.impl(_name, _factory(_name), "PrivateUse1")

# How torch.tensor(..., device=...) fills what it has made.
_library.impl("_copy_from", lambda source, target, non_blocking=False: _copy(target, source), "PrivateUse1")

# Pinned memory: ordinary memory that is remembered to be pinned.
_pinned_storages: set[int] = set()


def _pin_memory(source: Tensor, device: Any = None) -> Tensor:
    copied = source.clone()
    pointer = copied.untyped_storage().data_ptr()
    _pinned_storages.add(pointer)
    weakref.finalize(copied.untyped_storage(), _pinned_storages.discard, pointer)
    return copied


_library.impl("_pin_memory", _pin_memory, "CPU")
_library.impl(
    "is_pinned", lambda source, device=None: source.untyped_storage().data_ptr() in _pinned_storages, "CPU"
)
