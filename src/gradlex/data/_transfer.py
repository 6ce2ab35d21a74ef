"""From the host to the device: pinned and without waiting, where the device can."""

from __future__ import annotations

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device | None) -> Tensor:
    """The tensor on this device; the host does not wait for a copy to the machine's accelerator."""
    if device is None or tensor.device.type == device.type or tensor.device.type != "cpu":
        return tensor.to(device)
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or accelerator.type != device.type:  # only for that one is memory pinned
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
