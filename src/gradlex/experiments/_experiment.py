"""Run an experiment: from its grid to finished runs, or only to a list of what it would run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import torch
from annotated_types import Ge

from gradlex import _devices
from gradlex._checks import check_fields
from gradlex.errors import MissingDataError
from gradlex.experiments._activations import choose_layers, record_activations
from gradlex.experiments._grids import Cell, Grid
from gradlex.experiments._jobs import Job, State, prepare
from gradlex.experiments._plan import FIGURE2, Experiment, Plan, Planned
from gradlex.experiments._progress import ExperimentProgress
from gradlex.experiments._run_jobs import Failure, On, run_jobs
from gradlex.runs import Execution, Named, check_writable, cpus, find_device, make_problem

Status: TypeAlias = State | Literal["data missing"]


@dataclass(frozen=True, kw_only=True)
class Resources:
    """How an experiment is carried out. Nothing here changes its results.

    Examples:
        >>> from gradlex.experiments import Resources
        >>> Resources(jobs=4, device="cpu").on
        'processes'
        >>> Resources(on="slurm", on_options={"timeout_min": 60}).jobs
        'auto'
    """

    jobs: Annotated[int, Ge(1)] | Literal["auto"] = "auto"
    """Runs at the same time (auto: one per CPU core or GPU)."""
    evaluations: Annotated[int, Ge(1)] = 10
    """How often each run is evaluated on the test samples."""
    on: On = "processes"
    """Where: processes of this machine, a Ray cluster, or SLURM."""
    on_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of a cluster: address, num_cpus, num_gpus, retries (ray); cluster, timeout_min, ... (slurm)."""
    device: str | None = None
    """auto, cpu, cuda, cuda:1, ..."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""

    def __post_init__(self) -> None:
        """Refuse numbers below one."""
        check_fields(self)

    def at_once(self, device: torch.device, grid: Grid) -> int:
        """How many runs: as given, else one per GPU, or as many as the CPU cores have threads for."""
        if self.jobs != "auto":
            return self.jobs
        if self.on != "processes":  # the cluster starts what it has room for
            return len(grid.cells())
        if _devices.is_accelerator(device):
            return _devices.count(device) if device.index is None else 1
        threads = 1 if grid.shared.threads == "auto" else grid.shared.threads
        return max(1, cpus() // threads)


@dataclass(frozen=True, kw_only=True)
class ExperimentRun:
    """An experiment that was run: its plan, and what failed."""

    plan: Plan
    failures: tuple[Failure, ...] = ()


def run_experiment(
    experiment: Experiment, resources: Resources | None = None, *, progress: bool = True
) -> ExperimentRun:
    """Run what is not finished yet. Failures do not stop the other runs; they are in the outcome and in the plan.

    Examples:
        >>> from pathlib import Path
        >>> from gradlex.experiments import comparison_experiment, run_experiment
        >>> changes = {"methods": ["sgd", "lexicase"], "generations": 1, "seeds": 1}
        >>> experiment = comparison_experiment("digits", "small-cnn", out=Path("results"), **changes)
        >>> done = run_experiment(experiment, progress=False)  # both runs were finished before
        >>> len(done.plan.runs), done.failures
        (2, ())
    """
    resources = resources or Resources()
    check_writable(experiment.root)
    device = find_device(resources.device)
    jobs = prepare(experiment.grid.cells(), experiment.root, device=device, data_dir=resources.data_dir)
    layers = _layers(experiment, jobs, device, resources)
    plan = Plan(
        root=experiment.root,
        name=experiment.name,
        scale=experiment.scale,
        command=experiment.command,
        runs=tuple(Planned(method=job.method, run=job.folder.name, recipe=job.recipe) for job in jobs),
        layers=layers,
        title=experiment.title,
        pairs=experiment.pairs,
    )
    at_once = resources.at_once(device, experiment.grid)
    watcher = _Recorder(jobs, at_once, plan, quiet=not progress)
    with watcher:
        failures = run_jobs(
            jobs,
            at_once=at_once,
            device=device,
            data_dir=resources.data_dir,
            evaluations=resources.evaluations,
            watcher=watcher,
            on=resources.on,
            on_options=resources.on_options,
        )
    plan = plan.with_failures(_reasons(failures))
    plan.save()
    if experiment.name == FIGURE2:
        _record(jobs, layers, resources)
    return ExperimentRun(plan=plan, failures=tuple(failures))


def list_experiment(experiment: Experiment, resources: Resources | None = None) -> list[tuple[Cell, Status]]:
    """The runs and how far each has come; nothing is written, and data that is not here is not downloaded.

    Examples:
        >>> from pathlib import Path
        >>> from gradlex.experiments import comparison_experiment, list_experiment
        >>> changes = {"methods": ["sgd", "lexicase", "random"], "generations": 1, "seeds": 1}
        >>> experiment = comparison_experiment("digits", "small-cnn", out=Path("results"), **changes)
        >>> [(cell.method, state) for cell, state in list_experiment(experiment)]
        [('sgd', 'done'), ('lexicase', 'done'), ('random', 'to do')]
    """
    resources = resources or Resources()
    check_writable(experiment.root)
    device = find_device(resources.device)
    cells = experiment.grid.cells()
    states: dict[int, Status] = {}
    for dataset in experiment.grid.datasets:
        places = [place for place, cell in enumerate(cells) if cell.recipe.dataset == dataset]
        try:
            jobs = prepare(
                [cells[place] for place in places],
                experiment.root,
                device=device,
                data_dir=resources.data_dir,
                download=False,
            )
        except MissingDataError:
            states |= dict.fromkeys(places, "data missing")
        else:
            states |= {place: job.state for place, job in zip(places, jobs, strict=True)}
    return [(cell, states[place]) for place, cell in enumerate(cells)]


class _Recorder(ExperimentProgress):
    """Progress that also keeps the plan's file up to date: an interruption must not lose what has failed."""

    def __init__(self, jobs: Sequence[Job], at_once: int, plan: Plan, *, quiet: bool) -> None:
        self._plan, self._reasons = plan, plan.earlier_failures()
        plan.with_failures(self._reasons).save()
        super().__init__(jobs, at_once, plan.root, quiet=quiet)

    def failed(self, failure: Failure) -> None:
        """Write it at once."""
        self._reasons |= _reasons([failure])
        self._plan.with_failures(self._reasons).save()
        super().failed(failure)


def _reasons(failures: Sequence[Failure]) -> dict[str, str]:
    return {each.job.folder.name: each.reason for each in failures}


def _layers(
    experiment: Experiment, jobs: Sequence[Job], device: torch.device, resources: Resources
) -> tuple[str, ...]:
    """The layers of figure2, and their activations in the runs that are finished.

    Those may have lost their weights: that is refused before the plan is written.
    """
    if experiment.name != FIGURE2:
        return ()
    source, execution = Named(data_dir=resources.data_dir), Execution(workers=1)
    problem = make_problem(source, jobs[0].recipe, execution=execution, device=device)
    layers = choose_layers(problem, experiment.layers)
    _record(jobs, layers, resources)
    return layers


def _record(jobs: Sequence[Job], layers: tuple[str, ...], resources: Resources) -> None:
    for job in jobs:
        if job.state == "done":
            record_activations(
                job.folder, layers=layers, device=resources.device, data_dir=resources.data_dir
            )
