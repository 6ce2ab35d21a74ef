"""One experiment from the command: listed, or run and reported."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from rich import box
from rich.table import Table

from gradlex.cli._console import console
from gradlex.cli._experiment_progress import ExperimentProgress, duration
from gradlex.errors import InputError, MissingDataError, RunError
from gradlex.experiments import Grid, Job, Plan, Planned, estimate, prepare, record_activations, run_jobs
from gradlex.report import draw_figure2, text_report, write_report
from gradlex.runs import find_device, processors


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What was asked for."""

    name: str
    scale: str
    grid: Grid
    root: Path
    device: str
    data_dir: Path | None
    layers: tuple[str, ...] | None = None

    def list(self, jobs: int | Literal["auto"]) -> None:
        """Print every run with its settings, its state where the data is here to tell, and a guess of its time."""
        cells = self.grid.cells()
        device = find_device(self.device)
        try:
            prepared = prepare(cells, self.root, device=device, data_dir=self.data_dir, download=False)
            states: list[str] = [job.state for job in prepared]
        except MissingDataError as missing:
            states = ["data not here"] * len(cells)
            console().print(f"note: {missing} It would be downloaded.", soft_wrap=True)
        table = Table(box=box.SIMPLE)
        columns = (
            "run",
            "method",
            "dataset",
            "model",
            "p",
            "momentum",
            "generations",
            "batch",
            "lr",
            "decay",
        )
        for name in (*columns, "seed", "state", "estimate"):
            table.add_column(name, justify="left" if name in columns[1:4] else "right")
        seconds = estimate(cells, device)
        for number, (cell, state, guess) in enumerate(zip(cells, states, seconds, strict=True), start=1):
            recipe = cell.recipe
            table.add_row(
                str(number),
                cell.method,
                Path(recipe.dataset).name,
                recipe.model,
                str(recipe.population or 1),
                recipe.momentum or "inherit",
                str(recipe.generations),
                str(recipe.batch_size),
                f"{recipe.lr:g}",
                f"{recipe.weight_decay:g}",
                str(recipe.seed),
                state,
                "-" if guess is None or state == "done" else duration(guess),
            )
        console().print(table)
        left = [guess for guess, state in zip(seconds, states, strict=True) if state != "done"]
        known, at_once = (
            [guess for guess in left if guess is not None],
            at_the_same_time(jobs, device, self.grid),
        )
        unknown = (
            "" if len(known) == len(left) else f" without {len(left) - len(known)} runs of unknown length"
        )
        console().print(
            f"{len(cells)} runs, {len(left)} of them to do: roughly {duration(sum(known) / at_once)}{unknown}, "
            f"{at_once} at a time, from a short measurement of each network. Into {self.root}.",
            soft_wrap=True,
        )

    def run(self, jobs: int | Literal["auto"], evaluations: int) -> None:
        """Run what is not done, then write and print the report; what failed is named at the end."""
        if evaluations < 1:
            raise InputError(f"evaluations must be at least 1, got {evaluations}.")
        device = find_device(self.device)
        at_once = at_the_same_time(jobs, device, self.grid)
        prepared = prepare(self.grid.cells(), self.root, device=device, data_dir=self.data_dir)
        plan = self._plan(prepared)
        plan.save()
        with ExperimentProgress(prepared, at_once, self.root) as progress:
            failures = run_jobs(
                prepared,
                at_once=at_once,
                device=device,
                data_dir=self.data_dir,
                evaluations=evaluations,
                watcher=progress,
            )
        if self.name == "figure2":
            for job in prepared:
                if job.state == "done":
                    record_activations(
                        job.folder, layers=self.layers, device=self.device, data_dir=self.data_dir
                    )
        if len(failures) < len(prepared):
            written = write_report(plan)
            console().print(text_report(plan), soft_wrap=True, markup=False)
            console().print(
                f"written into {self.root}: {', '.join(path.name for path in written)}", soft_wrap=True
            )
        if failures:
            told = "\n".join(f"  {failure.job.title}: {failure.reason}" for failure in failures)
            raise RunError(f"{len(failures)} of {len(prepared)} runs failed:\n{told}")

    def _plan(self, jobs: Sequence[Job]) -> Plan:
        return Plan(
            root=self.root,
            name=self.name,
            scale=self.scale,
            command=shlex.join(["gradlex", *sys.argv[1:]]),
            runs=tuple(Planned(method=job.method, run=job.folder.name) for job in jobs),
        )


def at_the_same_time(jobs: int | Literal["auto"], device: torch.device, grid: Grid) -> int:
    """How many runs at once: as asked, else one an accelerator, or as many as the processors have threads for."""
    if jobs != "auto":
        if jobs < 1:
            raise InputError(f"jobs must be at least 1, got {jobs}.")
        return jobs
    if device.type == "cuda":
        return torch.cuda.device_count() if device.index is None else 1
    threads = 1 if grid.shared.threads == "auto" else grid.shared.threads
    return max(1, processors() // threads) if device.type == "cpu" else 1


def compare_runs(
    first: Sequence[Path],
    second: Sequence[Path],
    layers: tuple[str, ...] | None,
    root: Path,
    *,
    device: str,
    data_dir: Path | None,
) -> None:
    """Figure 2 for two sets of finished runs."""
    if not first or not second:
        raise InputError("figure2 compares two sets of runs: give --first RUN ... and --second RUN ...")
    for run in (*first, *second):
        record_activations(run, layers=layers, device=device, data_dir=data_dir)
    root.mkdir(parents=True, exist_ok=True)
    groups = {"first": first, "second": second}
    written = draw_figure2(groups, root / "figure2", layers=layers)
    console().print((root / "figure2.txt").read_text(), soft_wrap=True, markup=False)
    console().print(f"written: {', '.join(map(str, written))}", soft_wrap=True)
