"""How much memory this process has needed at its peak."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch


def peak_memory(device: torch.device) -> int | None:
    """Bytes: of the accelerator that a run computes on, else the process's resident set; None where none tells."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage, which on Linux starts from the peak of the process that started this one.
        found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
