"""The command `gradlex`, also as `python -m gradlex`.

What it needs is imported only once signals are heard: Ctrl-C before a run has begun ends it without a traceback.
"""

from __future__ import annotations

import signal
from types import FrameType


def main() -> None:
    """Run the command and exit with its code."""
    heard = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _end)
    try:
        from gradlex.cli import main as run  # noqa: PLC0415

        run()
    finally:
        for number in heard:  # no handler is left while the interpreter shuts down
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
