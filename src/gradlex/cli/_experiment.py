"""One experiment from the command: listed, or run and reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from gradlex.cli._console import console, typed_command
from gradlex.cli._dimensions import Carried
from gradlex.cli._experiment_progress import ExperimentProgress
from gradlex.cli._listing import print_runs
from gradlex.errors import MissingDataError, RunError
from gradlex.experiments import (
    Failure,
    Grid,
    Job,
    Plan,
    Planned,
    choose_layers,
    estimate,
    prepare,
    record_activations,
    run_jobs,
)
from gradlex.report import text_report, write_report
from gradlex.runs import find_device, named_problem, processors, refuse_unwritable


@dataclass(frozen=True)
class Experiment:
    """What was asked for."""

    name: str
    scale: str
    grid: Grid
    root: Path
    carried: Carried
    layers: tuple[str, ...] = ()

    def carry_out(self) -> None:
        """List the runs, or run what is not done and report."""
        self.carried.check()
        refuse_unwritable(self.root)
        device = find_device(self.carried.device)
        at_once = _at_once(self.carried.jobs, device, self.grid)
        if self.carried.listing:
            self._list(device, at_once)
        else:
            self._run(device, at_once)

    def _list(self, device: torch.device, at_once: int) -> None:
        cells, jobs = self.grid.cells(), dict[int, Job]()
        for dataset in self.grid.datasets:
            own = {place: cell for place, cell in enumerate(cells) if cell.recipe.dataset == dataset}
            try:
                found = prepare(
                    list(own.values()),
                    self.root,
                    device=device,
                    data_dir=self.carried.data_dir,
                    download=False,
                )
            except MissingDataError as missing:
                console().print(f"note: {missing} It would be downloaded.", soft_wrap=True)
            else:
                jobs |= dict(zip(own, found, strict=True))
        known = [jobs.get(place) for place in range(len(cells))]
        states = ["data not here" if job is None else job.state for job in known]
        print_runs(cells, states, estimate(cells, known, device), at_once, self.root)

    def _run(self, device: torch.device, at_once: int) -> None:
        """What failed is named at the end, after the report of the others."""
        data_dir = self.carried.data_dir
        jobs = prepare(self.grid.cells(), self.root, device=device, data_dir=data_dir)
        layers: tuple[str, ...] = ()
        if self.name == "figure2":
            layers = choose_layers(
                named_problem(jobs[0].recipe, device=device, data_dir=data_dir), self.layers
            )
            # Finished runs may have lost their weights: that is refused before the plan is written.
            self._record(jobs, layers)
        plan = self._plan(jobs, layers)
        reasons = plan.earlier_failures()
        plan.with_failures(reasons).save()

        def failed(failure: Failure) -> None:  # written at once: an interruption must not lose it
            reasons.update(_lasting([failure]))
            plan.with_failures(reasons).save()

        progress = ExperimentProgress(jobs, at_once, self.root, failed)
        with progress.bar:
            failures = run_jobs(
                jobs,
                at_once=at_once,
                device=device,
                data_dir=data_dir,
                evaluations=self.carried.evaluations,
                watcher=progress,
            )
        plan = plan.with_failures(_lasting(failures))
        plan.save()
        if self.name == "figure2":
            self._record(jobs, layers)
        if len(failures) < len(jobs):
            written = write_report(plan)
            console().print(text_report(plan, console().width), soft_wrap=True)
            names = ", ".join(path.name for path in written)
            console().print(f"written into {self.root}: {names}", soft_wrap=True)
        if failures:
            told = "\n".join(f"  {failure.job.title}: {failure.reason}" for failure in failures)
            raise RunError(f"{len(failures)} of {len(jobs)} runs failed:\n{told}")

    def _record(self, jobs: Sequence[Job], layers: tuple[str, ...]) -> None:
        carried = self.carried
        for job in jobs:
            if job.state == "done":
                record_activations(
                    job.folder, layers=layers, device=carried.device, data_dir=carried.data_dir
                )

    def _plan(self, jobs: Sequence[Job], layers: tuple[str, ...]) -> Plan:
        return Plan(
            root=self.root,
            name=self.name,
            scale=self.scale,
            command=typed_command(),
            runs=tuple(Planned(method=job.method, run=job.folder.name, recipe=job.recipe) for job in jobs),
            layers=layers,
        )


def _lasting(failures: Sequence[Failure]) -> dict[str, str]:
    """Why runs failed, by their names; a run that another process is at has not failed."""
    return {each.job.folder.name: each.reason for each in failures if not each.elsewhere}


def _at_once(jobs: int | Literal["auto"], device: torch.device, grid: Grid) -> int:
    """How many runs: as asked, else one an accelerator, or as many as the processors have threads for."""
    if jobs != "auto":
        return jobs
    if device.type == "cuda":
        return torch.cuda.device_count() if device.index is None else 1
    threads = 1 if grid.shared.threads == "auto" else grid.shared.threads
    return max(1, processors() // threads) if device.type == "cpu" else 1
