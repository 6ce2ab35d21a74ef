"""The command `gradlex`: one file a subcommand. torch is imported only by those that need it.

Exit codes: 0 done, 1 the run failed, 2 the input was refused, 130 and 143 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tyro

from gradlex._version import __version__
from gradlex.cli import _arguments, _evaluate, _lists, _paper, _train
from gradlex.cli._console import open_streams
from gradlex.errors import InputError, InterruptedRun, RunError

_COMMANDS = {
    "train": _train.train,
    "resume": _train.resume,
    "evaluate": _evaluate.evaluate,
    "compare": _paper.compare,
    "paper": _paper.paper,
    "report": _paper.report,
    "models": _lists.models,
    "datasets": _lists.datasets,
    "selections": _lists.selections,
}

_DESCRIPTION = (
    f"gradlex {__version__}: train neural networks by gradient lexicase selection (Ding and Spector, ICLR 2022). "
    "Start with `gradlex train`."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"gradlex {__version__}")
        sys.exit(0)
    try:
        _run(_COMMANDS, given or ["--help"])
    except InputError as error:
        print(f"gradlex: {error}", file=sys.stderr)
        sys.exit(2)
    except RunError as error:
        print(f"gradlex: {error}", file=sys.stderr)
        sys.exit(1)
    except InterruptedRun as interruption:
        print(f"gradlex: {interruption}", file=sys.stderr)
        sys.exit(interruption.exit_code)
    except KeyboardInterrupt:
        print("gradlex: interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:  # what no room of the house has words for: a log on a full disk
        print(f"gradlex: {error}", file=sys.stderr)
        sys.exit(1)


def _run(commands: Mapping[str, Any], given: list[str]) -> None:
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    name, *words = given
    if name in commands:  # by itself, so that what it refuses points to its own help
        tyro.cli(
            commands[name],
            prog=f"gradlex {name}",
            args=words,
            config=config,
            registry=_arguments.registry,
        )
        return
    tyro.extras.subcommand_cli_from_dict(
        dict(commands),
        prog="gradlex",
        description=_DESCRIPTION,
        args=given,
        config=config,
        registry=_arguments.registry,
    )
