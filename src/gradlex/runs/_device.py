"""Which device a run computes on."""

from __future__ import annotations

import torch

from gradlex.errors import InputError


def find_device(name: str | None) -> torch.device:
    """The named device; None or auto: the machine's accelerator where it has one, else the processor."""
    if name is None or name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:  # torch's, for an unknown or missing device
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"device {name!r} cannot be used: {reason} Use auto, cpu, cuda or cuda:1."
        ) from error
    if device.type == "meta":
        raise InputError(
            f"device {name!r} cannot be used: it holds no numbers. Use auto, cpu, cuda or cuda:1."
        )
    return device
