"""gradlex paper"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from gradlex.callbacks.progress import counted
from gradlex.cli.flags import Command
from gradlex.errors import RunError


class Paper(Command):
    """Run a table of the paper and print it beside the published one.

    Run the command again to continue; finished runs are kept.
    """

    examples: ClassVar[str] = """
        gradlex paper table2
        gradlex paper table1 --scale small --jobs 2 --out runs/table1
    """

    table: Annotated[Literal["table1", "table2", "table3", "table4", "figure2"], tyro.conf.Positional]
    """table1: networks and datasets; table2: selection methods; table3: population sizes; table4: momentum; figure2:
    representations."""
    scale: Literal["smoke", "small", "paper"] = "smoke"
    """smoke: a minute, offline; small: about three hours on two cores; paper: the paper's setting."""
    out: Path | None = None
    """The folder for the runs (default: one in runs/)."""
    jobs: int = 1
    """Runs at the same time, with one thread each."""
    backend: str = "processes"
    """Where they run: processes, serial, or ray, with options as in ray(num_gpus=1)."""
    commands: bool = False
    """Only print a command for each run that isn't finished, for a scheduler's array job."""

    def __call__(self) -> None:
        """Run what is missing, and print the table."""
        from gradlex.report import paper

        found = paper(
            self.table,
            scale=self.scale,
            out=self.out,
            jobs=self.jobs,
            backend=self.backend,
            commands_only=self.commands,
        )
        print(found)
        if found.failures:
            raise RunError(f"{counted(len(found.failures), 'run')} failed: run the command again to retry.")
