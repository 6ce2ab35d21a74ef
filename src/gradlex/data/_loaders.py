"""Loader workers: processes that read the batches of a slow Dataset ahead, by torch's DataLoader.

Each batch is read with random numbers of its own, so that nothing depends on how many read them. A worker computes
with one thread.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler


class Request(NamedTuple):
    """A batch to read."""

    indices: npt.NDArray[np.intp]
    seeds: tuple[int, ...] | None
    """What the training view's transforms draw from; None for the clean view."""


class Loaders:
    """Reads batches in this process, or ahead in `workers` others, which stay for the next batches."""

    def __init__(self, read: Callable[[Request], tuple[Any, Tensor]], workers: int) -> None:
        self._read, self._workers = read, workers
        self._free: list[tuple[_Requests, DataLoader[Any]]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_free": []}  # another process starts its own

    def batches(self, requests: Sequence[Request]) -> Iterator[tuple[Any, Tensor]]:
        """The batches in order."""
        if self._workers == 0 or not requests:
            yield from map(self._read, requests)
            return
        asked, loader = self._free.pop() if self._free else self._started()
        asked.requests = requests
        for found in loader:
            if isinstance(found, Exception):
                raise found
            yield found
        self._free.append((asked, loader))  # one that is left in the middle is not used again

    def _started(self) -> tuple[_Requests, DataLoader[Any]]:
        asked = _Requests()
        loader: DataLoader[Any] = DataLoader(
            _Reader(self._read),
            batch_size=None,
            sampler=asked,
            num_workers=self._workers,
            persistent_workers=True,
            collate_fn=_unchanged,
            worker_init_fn=_begin,
            generator=torch.Generator(),  # torch's own one belongs to dropout
        )
        return asked, loader


class _Requests(Sampler[Request]):
    requests: Sequence[Request] = ()

    def __iter__(self) -> Iterator[Request]:
        return iter(self.requests)


class _Reader(Dataset[Any]):
    """What a worker does: a whole batch is one sample of the DataLoader's."""

    def __init__(self, read: Callable[[Request], tuple[Any, Tensor]]) -> None:
        self._read = read

    def __getitem__(self, request: Request) -> Any:
        try:
            return self._read(request)
        except Exception as error:  # noqa: BLE001  # it is raised where the batch was asked for, without torch's words
            try:
                return pickle.loads(pickle.dumps(error))
            except Exception:  # noqa: BLE001  # whatever a user's exception does
                return RuntimeError(f"{type(error).__name__}: {error}")


def _unchanged(batch: Any) -> Any:
    return batch


def _begin(_: int) -> None:
    """Ctrl-C is for the run, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
