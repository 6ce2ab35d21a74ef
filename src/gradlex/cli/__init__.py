"""The command `gradlex`: one file per command, which parses and prints. torch is imported by those that need it.

Exit codes: 0 done, 1 failed, 2 bad input, 130 and 143 interrupted.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

from gradlex import __version__
from gradlex.errors import InputError, InterruptedRun, RunError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; whatever isn't a success ends the process with its exit code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _note
            _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except InputError as error:
        _end(error, 2)
    except RunError as error:
        _end(error, 1)
    except InterruptedRun as interruption:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more would print a traceback while Python exits
        _end(interruption, interruption.exit_code)
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except BrokenPipeError:  # the reader has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> None:
    if words and words[0] in ("-V", "--version"):
        print(f"gradlex {__version__}")
        return
    from gradlex.cli.flags import parse

    parse(words)()


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"note: {message}")


def _end(message: object, code: int) -> None:
    _say(f"gradlex: {message}")
    sys.exit(code)


def _say(text: str) -> None:
    """Print to stderr; a terminal breaks lines between words."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    print(text, file=sys.stderr)
