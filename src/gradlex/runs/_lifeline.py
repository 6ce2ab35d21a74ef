"""Lifeline: what ties a local worker to rank 0. It is the first thing a worker gets, so it imports nothing heavy."""

from __future__ import annotations

import os
import pickle
import queue
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

LOST = 75
"""Exit code of a worker that ends because another process has."""
ADVICE = (
    'A script that uses several workers needs an `if __name__ == "__main__":` guard around its code, and a notebook '
    "its model, functions and classes in a module that can be imported; or use workers=1."
)


class Lifeline:
    """A worker's ends of two pipes: from rank 0, whose end ends the worker, and to it, for reports.

    What the worker is to do comes through the first, then where to meet, then nothing. It is watched from the moment it
    is unpickled, while torch and the data are still on their way, and whatever the worker waits for later.
    """

    def __init__(self, pipe: Connection, reports: Connection, life: Callable[..., None], *given: Any) -> None:
        self._pipe, self._reports, self._life = pipe, reports, (life, given)
        self.parcel = b""
        """What rank 0 sends once the process is there.

        Not an argument of the process: multiprocessing waits for ever for a process that ends before it has read all of
        its arguments, where they are more than a pipe holds.
        """

    def __getstate__(self) -> tuple[Connection, Connection]:
        # Packed while the process is being started, so that it inherits the handles of shared memory.
        self.parcel = bytes(ForkingPickler.dumps(self._life))
        return self._pipe, self._reports

    def __setstate__(self, pipes: tuple[Connection, Connection]) -> None:
        self._pipe, self._reports = pipes
        self._received: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._hold, daemon=True).start()

    def live(self) -> None:
        """Do what the worker is to do."""
        try:
            life, given = pickle.loads(self._received.get())
        except Exception as error:  # noqa: BLE001  # whatever importing the user's modules may raise
            what = f"{type(error).__name__}: {error}"
            self.report(f"a worker cannot load what it is to compute: {what}. {ADVICE}")
            os._exit(1)
        life(self, *given)

    def meeting(self) -> str:
        """The folder to meet in, once every worker is there."""
        return self._received.get().decode()

    def report(self, failure: str | None) -> None:
        """Tell rank 0 when and why this worker has failed; None: that it has all it needs."""
        self._reports.send((time.time(), failure))

    def _hold(self) -> None:
        folder = None
        try:
            self._received.put(self._pipe.recv_bytes())
            folder = self._pipe.recv_bytes()
            self._received.put(folder)
            self._pipe.recv_bytes()  # nothing else is ever sent
        except (EOFError, OSError):
            if folder is not None:
                _remove(folder.decode())  # which rank 0 would have done
            os._exit(LOST)


def _remove(folder: str) -> None:
    """Remove a folder in which another thread, inside torch, may just be making a file: under another name."""
    with suppress(OSError):  # another worker was faster
        os.rename(folder, f"{folder}-left")
    shutil.rmtree(f"{folder}-left", ignore_errors=True)
