"""gradlex report, gradlex show, gradlex runs: what came of runs, as a page and in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from gradlex.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Report:
    """Make the page of a run, or the page, tables and plots of experiments.

    The page is report.html in that folder: one file that needs no network.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """A run folder, or a folder of experiments (--out of gradlex paper or gradlex compare)."""
    page: Path | None = None
    """Also write one page in Markdown about all experiments of the folder, such as RESULTS.md."""
    opened: bool = field(default=False, metadata={"flag": "open"})
    """Show the page in the browser."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = """
        gradlex report runs/mine --open
        gradlex report results --page RESULTS.md
    """

    def __call__(self) -> None:
        """Write them, and print the tables."""
        if self.page is not None and (self.page.is_dir() or not self.page.resolve().parent.is_dir()):
            raise InputError(
                f"the page {self.page} cannot be written: it must be a file in a folder that exists."
            )
        from gradlex._console import console
        from gradlex.runs import RunFolder

        is_run = RunFolder(self.folder).holds_run
        if is_run and self.page is not None:
            raise InputError(
                f"--page is about experiments, and {self.folder} is a run: leave it out, its page is report.html."
            )
        path = self._run() if is_run else self._experiments()
        console().print(f"page: {path}", soft_wrap=True)
        if self.opened:
            import webbrowser

            webbrowser.open(path.resolve().as_uri())

    def _run(self) -> Path:
        from gradlex.report import write_run_page

        return write_run_page(self.folder)

    def _experiments(self) -> Path:
        from gradlex._console import console, plural
        from gradlex.experiments import stored_plans

        plans = stored_plans(self.folder)
        from gradlex.report import text_report, write_experiment_page, write_report, write_results_page

        out = console()
        for plan in plans:
            written = write_report(plan)
            out.print(text_report(plan, out.width), soft_wrap=True)
            names = ", ".join(path.name for path in written)
            out.print(f"{plural(len(written), 'file')} written: {names}", soft_wrap=True)
        if self.page is not None:
            first, *_ = write_results_page(self.folder, self.page)
            out.print(f"page in Markdown: {first}", soft_wrap=True)
        first, *_ = write_experiment_page(self.folder)
        return first


@dataclass(frozen=True, kw_only=True)
class Show:
    """Show what came of a run: metrics, sparklines, selection, cost."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = "gradlex show runs/mine"

    def __call__(self) -> None:
        """Print it."""
        from gradlex._console import console
        from gradlex.report import show_run

        out = console()
        out.print(show_run(self.run, blocks=out.encoding.lower().startswith("utf")), soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """List the runs below a folder: state, metric, age."""

    folder: Annotated[Path, tyro.conf.Positional] = Path("runs")
    """Where to look."""
    sort: Literal["age", "metric", "name", "state"] = "age"
    """The newest first, the best metric first, or by name or state."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = """
        gradlex runs
        gradlex runs results --sort metric
    """

    def __call__(self) -> None:
        """Print the table."""
        import time

        from rich import box
        from rich.table import Table

        from gradlex._console import console, plural
        from gradlex.report import COLUMNS, list_runs

        lines, now, out = list_runs(self.folder, sort=self.sort), time.time(), console()
        table = Table(box=box.SIMPLE)
        for name in COLUMNS:  # what is typed is never cut
            wide = name in ("run", "what")
            table.add_column(name, overflow="fold", no_wrap=not wide, justify="left" if wide else "right")
        for line in lines:
            table.add_row(*line.cells(self.folder, now))
        out.print(table)
        out.print(f"{plural(len(lines), 'run')} in {self.folder}", soft_wrap=True)
