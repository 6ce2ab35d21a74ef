"""Ctrl-C and SIGTERM: the first ends a run after the current generation, the second at once.

Before the first generation there is nothing to wait for: then the first ends it at once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GRACE = 3.0  # seconds for an orderly end


class Interrupts:
    """A context in which the first signal sets `signum`, once it `waits`, and any other raises SystemExit.

    Python acts on a signal only between two of its own steps, and may be waiting inside torch for another
    process. So a thread hears the signals too, and where one that should has not ended the process soon, it does.
    A signal that was ignored before stays ignored.
    """

    def __init__(self, *, handle: bool, waits: bool = True) -> None:
        self._handle = handle
        self.waits = waits
        """Whether there is something to finish first."""
        self._before: dict[int, object] = {}
        self._ending = False
        self._left = threading.Event()
        self.signum = 0

    def __enter__(self) -> Interrupts:
        heard = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN] if self._handle else []
        if heard:
            self._reader, self._writer = socket.socketpair()
            self._writer.setblocking(False)
            self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._listen, daemon=True).start()
            self._before = {number: signal.signal(number, self._received) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]  # what signal.signal returned
        if self._before:
            signal.set_wakeup_fd(self._wakeup)
            self._writer.close()

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.waits and not self.signum:
            self.signum = number
            # Not print: the signal may have come in the middle of one.
            with suppress(OSError):
                os.write(2, b"gradlex: stopping after this generation; press Ctrl-C again to stop now\n")
        elif not self._ending:  # once only, so that a third cannot disturb the orderly end
            self._ending = True
            raise SystemExit(128 + number)

    def _listen(self) -> None:
        heard: list[int] = []
        with self._reader:
            while len(heard) < (2 if self.waits else 1):
                received = self._reader.recv(1)
                if not received:  # the context has been left
                    return
                heard += [number for number in received if number in _SIGNALS]
        if not self._left.wait(_GRACE):
            for child in multiprocessing.active_children():
                child.kill()
            os._exit(128 + heard[-1])


@contextmanager
def deaf() -> Iterator[None]:
    """A process started inside hears neither Ctrl-C nor SIGTERM: they may reach a group, and its parent decides."""
    if not hasattr(
        signal, "pthread_sigmask"
    ):  # Windows: a console's Ctrl-C reaches all, and its parent ends a worker
        yield
        return
    resource_tracker.ensure_running()  # which would unblock them again if it started in here
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
