"""What a device can do: every question is put to torch, none is answered by the device's name."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.distributed as dist

CPU = torch.device("cpu")


def is_accelerator(device: torch.device) -> bool:
    """Whether it is anything but the CPU."""
    return device.type != CPU.type


def count(device: torch.device) -> int:
    """How many devices of this kind the machine has; the CPU is one."""
    return max(1, int(_asked(device, "device_count", default=1))) if is_accelerator(device) else 1


def own(device: torch.device, place: int) -> torch.device:
    """The device for the worker at this place: one of all where only their kind is named."""
    if not is_accelerator(device) or device.index is not None:
        return device
    return torch.device(device.type, place % count(device))


def make_current(device: torch.device) -> None:
    """Have this process allocate there, where several could be meant."""
    if is_accelerator(device):
        _asked(device, "set_device", device, default=None)


def seed(device: torch.device, number: int) -> None:
    """Seed the generator of this device, and of no other."""
    if not is_accelerator(device):
        torch.default_generator.manual_seed(number)
        return
    module = torch.get_device_module(device)
    generators = getattr(module, "default_generators", ())  # of each device, once the first is used
    if generators:
        generators[module.current_device() if device.index is None else device.index].manual_seed(number)
    else:
        module.manual_seed(number)


def name(device: torch.device) -> str | None:
    """What an accelerator's maker calls it; None for the CPU, and where nobody tells."""
    return _asked(device, "get_device_name", device, default=None) if is_accelerator(device) else None


def peak_memory(device: torch.device) -> int | None:
    """The most bytes that were allocated on an accelerator; None where it does not count them."""
    return _asked(device, "max_memory_allocated", device, default=None) if is_accelerator(device) else None


def native_bfloat16(device: torch.device) -> bool:
    """Whether the device computes bfloat16 itself rather than emulating it."""
    if not is_accelerator(device):
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    asks = getattr(torch.get_device_module(device), "is_bf16_supported", None)
    return asks is not None and bool(asks(including_emulation=False))


@cache
def has_float64(device: torch.device) -> bool:
    """Whether it computes in double precision."""
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):  # torch's words for a type that a device lacks
        return False
    return True


def backend(device: torch.device) -> str | None:
    """What processes on such devices talk through; None where torch has nothing for them."""
    if not is_accelerator(device):
        return "gloo"
    own_kind = dist.Backend.default_device_backend_map.get(device.type)
    return None if own_kind is None else f"cpu:gloo,{device.type}:{own_kind}"


def _asked(device: torch.device, question: str, *arguments: Any, default: Any) -> Any:
    """What the device's own module answers; the default where it does not know the question."""
    answer = getattr(torch.get_device_module(device), question, None)
    return default if answer is None else answer(*arguments)
