"""How a process of gradlex's own keeps its memory; the caller's process is left as it is."""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers of what mallopt(3) sets
_KEPT, _FROM_HEAP = 2**30, 2**25  # bytes; glibc takes no more for the second
_CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_")


def keep_freed_memory() -> None:
    """Have this process keep the memory of one pass for the next, at most a gigabyte.

    By default glibc gives a network's maps back to the system after nearly every layer, and the system clears each page
    before it hands it out again: a third of the time of evaluating resnet20. If the environment sets up glibc's malloc,
    that holds; other C libraries are left as they are.
    """
    chosen = any(name in os.environ for name in _CHOSEN)
    if sys.platform != "linux" or chosen or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    set_up = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_up is not None:
        set_up(_MMAP_THRESHOLD, _FROM_HEAP)
        set_up(_TRIM_THRESHOLD, _KEPT)
