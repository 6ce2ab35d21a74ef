"""Ctrl-C and SIGTERM: the first ends a run after the current generation, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

from gradlex.errors import InterruptedRun

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class Interrupts:
    """A context in which the first signal sets `signum`, and the same one again raises InterruptedRun.

    A signal that the caller handles or ignores stays the caller's, and so do all of them outside the main thread.
    """

    def __init__(self, *, handle: bool) -> None:
        self._handle = handle and threading.current_thread() is threading.main_thread()
        self._before: dict[int, Any] = {}
        self.signum = 0
        """The signal that arrived, or 0."""

    def __enter__(self) -> Interrupts:
        for number, default in _DEFAULTS.items() if self._handle else ():
            if signal.getsignal(number) is default:
                self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.signum == number:
            raise InterruptedRun(number, "stopped at once, in the middle of a generation; the last checkpoint stands")
        self.signum = number
        with suppress(OSError):  # not print: the signal may have arrived in the middle of one
            os.write(2, b"\ngradlex: stopping after this generation; once more to stop now\n")
