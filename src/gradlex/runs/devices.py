"""Devices and threads: which ones a run computes on, and how this machine is described in its folder."""

from __future__ import annotations

import math
import multiprocessing
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import nn

from gradlex._checks import Count, check
from gradlex.errors import InputError

_SMALL_STEP = 2 * 10**8
"""Parameters x pixels x samples; on digits a small CNN takes a tenth of a second for so many."""

Threads: TypeAlias = Count | Literal["auto"]


def find_device(given: str | torch.device | None) -> torch.device:
    """The device; None or "auto" is the machine's accelerator if it has one, else the CPU.

    Under torchrun, a kind of device without a number is the one with this process's local rank.
    """
    if given is None or given == "auto":
        given = (torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None) or "cpu"
    try:
        device = torch.device(given)
        if device.type != "cpu" and device.index is None and device.type != "meta":
            count = torch.get_device_module(device).device_count()
            device = torch.device(device.type, int(os.environ.get("LOCAL_RANK", "0")) % max(count, 1))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:  # torch's words for what isn't there
        reason = str(error).partition("\n")[0]
        raise InputError(f"device {str(given)!r} cannot be used: {reason} Use auto, cpu, cuda or cuda:1.") from error
    if device.type == "meta":
        raise InputError("device 'meta' holds no numbers: use auto, cpu, cuda or cuda:1.")
    return device


def count_threads(given: int | str) -> int:
    """The number of threads; "auto" is torch's own setting, or 1 in a worker process, which shares the CPUs."""
    if check("threads", Threads, given) != "auto":
        return int(given)
    # Workers of multiprocessing and joblib have other names. Ray, as torchrun, sets OMP_NUM_THREADS, which torch reads.
    return torch.get_num_threads() if multiprocessing.current_process().name == "MainProcess" else 1


def gains_from_threads(model: nn.Module, sample: Sequence[int] | None, batch: int) -> bool:
    """Whether a training step is long enough to be shared by threads, which wait for each other."""
    pixels = math.prod(sample[1:]) if sample else 1
    return sum(parameter.numel() for parameter in model.parameters()) * pixels * batch > _SMALL_STEP


def environment(device: torch.device, processes: int) -> dict[str, Any]:
    """What computes a run: the versions and the machine that its last bits depend on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "processes": processes,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
