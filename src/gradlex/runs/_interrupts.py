"""Ctrl-C and SIGTERM: the first asks the run to end after the current generation, the second ends it at once."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context in which the first signal sets `signum` and the second raises SystemExit."""

    def __init__(self, *, handle: bool) -> None:
        self._handle = handle
        self._before: dict[int, object] = {}
        self.signum = 0

    def __enter__(self) -> Interrupts:
        if self._handle:
            self._before = {number: signal.signal(number, self._received) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]  # what signal.signal returned

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.signum:
            raise SystemExit(128 + number)
        self.signum = number
