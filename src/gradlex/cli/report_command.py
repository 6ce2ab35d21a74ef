"""gradlex report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from gradlex.callbacks.progress import shown
from gradlex.cli.flags import Command


class Report(Command):
    """Print the results of a run or comparison, and write its page."""

    examples: ClassVar[str] = """
        gradlex report runs/digits-lexicase-seed0
        gradlex report runs/compare-digits --page
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """A run folder, or the folder of gradlex compare or gradlex paper."""
    page: bool = False
    """Write the page, report.html in that folder: one file that works offline."""

    def __call__(self) -> None:
        """Print the summary, and write the page."""
        from gradlex.report import summary, write_experiment_page, write_run_page

        print(summary(self.folder))
        if self.page:
            write = write_run_page if (self.folder / "run.json").exists() else write_experiment_page
            print(f"Page: {shown(write(self.folder))}")
