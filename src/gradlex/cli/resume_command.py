"""gradlex resume"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from gradlex._checks import Count, check
from gradlex.callbacks import LOGGERS, Progress
from gradlex.cli.flags import Command
from gradlex.cli.torchrun import run_processes, under_torchrun
from gradlex.cli.train_command import print_outcome


class Resume(Command):
    """Continue an interrupted run to the same result."""

    examples: ClassVar[str] = """
        gradlex resume runs/digits-lexicase-seed0
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    dataset: str | None = None
    """Where the run's data is now (default: where it was)."""
    device: str | None = None
    """cpu, cuda, cuda:1, ... (default: as before). Another kind of device may change the last bits."""
    workers: int = 1
    """Processes that train candidates at the same time; the result is the same."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Loggers; each continues its log."""

    def __call__(self) -> None:
        """Continue, and print what the run reached."""
        loggers = [LOGGERS[name]() for name in dict.fromkeys(self.log)]
        if check("workers", Count, self.workers) > 1 and not under_torchrun():
            run_processes(self.workers, self.words)
            return
        from gradlex.runs import resume

        if (self.run / "result.json").exists():
            print("Already finished.")
        given = {name: value for name, value in (("data", self.dataset), ("device", self.device)) if value}
        print_outcome(resume(self.run, callbacks=[Progress(), *loggers], progress=False, **given))
