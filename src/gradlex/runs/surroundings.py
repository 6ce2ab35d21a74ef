"""The surroundings of a run: what the caller has set for the process stays out of the run, and is put back after it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from gradlex.seeding import seeded

_TURN = threading.RLock()


@contextmanager
def surroundings(*, device: torch.device, threads: int, deterministic: bool) -> Iterator[None]:
    """Compute inside with gradients, float32, no autocast and seeded generators, whatever the caller has set.

    Random generators, threads and determinism belong to the whole process, so threads take turns.
    """
    with ExitStack() as stack:
        stack.enter_context(_turn())
        stack.enter_context(torch.inference_mode(False))  # which enables gradients too
        for kind in {"cpu", device.type}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.empty(0).device.type != "cpu":
            stack.enter_context(torch.device("cpu"))
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float32)
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(threads)
        if deterministic:
            stack.enter_context(_deterministic())
        stack.enter_context(seeded(0, device))
        yield


@contextmanager
def _turn() -> Iterator[None]:
    if not _TURN.acquire(blocking=False):
        logging.getLogger("gradlex").warning(
            "another thread of this process is training: waiting for it to finish. Use processes to train in parallel."
        )
        _TURN.acquire()
    try:
        yield
    finally:
        _TURN.release()


@contextmanager
def _deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        if workspace is None:
            del os.environ["CUBLAS_WORKSPACE_CONFIG"]
