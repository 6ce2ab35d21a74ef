"""The command `gradlex`: one file a subcommand, which parses and prints. torch is imported only by those that need it.

Exit codes: 0 done, 1 the run failed, 2 the input was refused, 130 and 143 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import inspect
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from gradlex._console import console, one_line, open_streams, print_error, printable
from gradlex._memory import keep_freed_memory
from gradlex._version import __version__
from gradlex.errors import InputError, InterruptedRun, RunError, unknown_name

COMMANDS = {
    "train": "_train:Train",
    "resume": "_train:Resume",
    "replay": "_train:Replay",
    "evaluate": "_evaluate:Evaluate",
    "predict": "_predict:Predict",
    "export": "_predict:Export",
    "soup": "_soup:MakeSoup",
    "compare": "_experiments:Compare",
    "paper": "_experiments:Paper",
    "report": "_report:Report",
    "show": "_report:Show",
    "runs": "_report:Runs",
    "models": "_lists:Models",
    "datasets": "_lists:Datasets",
    "selections": "_lists:Selections",
    "completion": "_completion:Completion",
}
"""Where each subcommand is, imported once it is asked for."""

_HELP, _VERSION = ("-h", "--help", "help"), ("-V", "--version")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    open_streams()
    keep_freed_memory()
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments))
    except InputError as error:
        _exit(one_line(str(error)), 2)
    except RunError as error:
        _exit(error, 1)
    except InterruptedRun as interruption:
        _exit(interruption, interruption.exit_code)
    except KeyboardInterrupt:
        _exit("interrupted", 130)
    except OSError as error:  # whatever was not handled closer to its cause, a full disk for example
        _exit(error, 2 if error.errno == errno.ENAMETOOLONG else 1)
    except Exception:  # noqa: BLE001  # a fault of gradlex, or of a user's code that it does not name
        sys.stderr.write(printable(traceback.format_exc()))  # as Python would, but for control characters
        sys.exit(1)


def _run(words: list[str]) -> None:
    if not words or words[0] in _HELP:
        _overview()
    elif words[0] in _VERSION:
        print(f"gradlex {__version__}")
    elif words[0].startswith("-"):
        raise InputError(f"expected a command, got {words[0]!r}. gradlex --help lists the commands.")
    elif words[0] not in COMMANDS:
        raise unknown_name("command", words[0], COMMANDS)
    else:
        from gradlex.cli._arguments import parse

        parse(find_command(words[0]), f"gradlex {words[0]}", words[1:])()


def find_command(name: str) -> Any:
    """The subcommand's class, imported now."""
    module, _, command = COMMANDS[name].partition(":")
    return getattr(importlib.import_module(f"{__name__}.{module}"), command)


def _overview() -> None:
    from rich.table import Table

    out, table = console(), Table.grid(padding=(0, 2))
    for name in COMMANDS:
        table.add_row(f"  {name}", inspect.cleandoc(find_command(name).__doc__).splitlines()[0])
    out.print(f"gradlex {__version__}: train neural networks by gradient lexicase selection.\n")
    out.print("usage: gradlex COMMAND [OPTIONS]\n")
    out.print(table)
    out.print(
        "\nStart with gradlex train; gradlex COMMAND --help shows the options of a command."
        "\nDoes it help on your data? gradlex compare --dataset DATA --model MODEL"
    )


def _exit(message: object, code: int) -> NoReturn:
    print_error(str(message))
    sys.exit(code)
