"""gradlex compare, gradlex paper"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from gradlex.errors import InputError, RunError
from gradlex.experiments import Experiment, Scale, comparison_experiment, paper_experiment
from gradlex.recipe import Precision

if TYPE_CHECKING:
    from gradlex.experiments import Cell, Resources

Name = Literal["table1", "table2", "table3", "table4", "figure2"]

_SHARED = ("train_size", "batch_size", "lr", "weight_decay", "augment", "width", "precision", "threads")
_GRID = ("methods", "populations", "momenta", "seeds", "generations", *_SHARED, "recipe")
_EXECUTION = ("jobs", "on", "on_options", "evaluations", "device", "data_dir")


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What differs from the experiment's own grid; what is not given leaves it."""

    methods: tuple[str, ...] = ()
    """Of sgd, sgd-matched, sgd-matched-5e-4, random, tournament, lexicase, average, average-outer-0.5, expected,
    expected-outer-0.5, survivors, lexicase-survive, epsilon-lexicase, batch-lexicase, swa, sgd-best, branched-average,
    branched-expected, branched-lexicase, branched-random, varied-lexicase, varied-truncation, varied-random
    (default: those of the experiment)."""
    populations: tuple[int, ...] = ()
    """Population sizes."""
    momenta: tuple[str, ...] = ()
    """Optimizer state between generations: none, reset, inherit."""
    seeds: int | None = None
    """Number of seeds."""
    generations: int | None = None
    """Epochs of the SGD baseline; a population of p has p + 1 times as many generations."""
    train_size: int | None = None
    """Train on a stratified part of this many samples."""
    batch_size: int | None = None
    """Samples per gradient step."""
    lr: float | None = None
    """Initial learning rate."""
    weight_decay: float | None = None
    """Weight decay, except for methods with their own."""
    augment: str | None = None
    """Augmentation of training batches: none, or crop4 (any padding), flip, cutout8, joined by commas."""
    width: float | None = None
    """Scale of the network's hidden layers."""
    precision: Precision | None = None
    """bfloat16 autocast or float32."""
    threads: int | None = None
    """CPU threads per run (default: 1). They change a network's last bits, so they are part of what a run is."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Any other recipe field, for all runs: optimizer=adamw schedule=constant."""

    def of_grid(self) -> dict[str, Any]:
        """What `Grid.changed` is given."""
        for name in self.recipe:
            if name in _SHARED:
                raise InputError(f"recipe field {name} has a flag of its own: --{name.replace('_', '-')}.")
        given = {name: value for name in _SHARED if (value := getattr(self, name)) is not None}
        return {
            "methods": self.methods,
            "populations": self.populations,
            "momenta": self.momenta,
            "seeds": self.seeds,
            "generations": self.generations,
            "recipe": {**given, **self.recipe},
        }


@dataclass(frozen=True, kw_only=True)
class Carried:
    """How it is carried out."""

    out: Path | None = None
    """The folder for the runs and the report (default: one under runs/)."""
    listing: bool = field(default=False, metadata={"flag": "list"})
    """Only list the runs and how far each has come."""
    jobs: int | Literal["auto"] = "auto"
    """Runs at the same time (default: auto, one per CPU or GPU)."""
    evaluations: int = 10
    """How often each run is evaluated on the test samples."""
    on: Literal["processes", "ray", "slurm"] = "processes"
    """Where runs are computed: processes of this machine, a Ray cluster, or SLURM."""
    on_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the cluster, as KEY=VALUE: address, num_cpus, num_gpus, retries (ray); cluster=local, timeout_min=60,
    slurm_partition=NAME and others of submitit (slurm)."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ... (default: auto, the accelerator if there is one)."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""

    def check(self) -> None:
        """Refuse numbers below one, before anything is imported."""
        for name in ("jobs", "evaluations"):
            value = getattr(self, name)
            if value != "auto" and value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {value}.")

    def resources(self) -> Resources:
        """The same for the library."""
        from gradlex.experiments import Resources

        return Resources(
            jobs=self.jobs,
            evaluations=self.evaluations,
            on=self.on,
            on_options=self.on_options,
            device=self.device,
            data_dir=self.data_dir,
        )


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Does it help? Compare SGD, SGD of equal cost and selection on your data.

    Rerun the command to continue; finished runs are skipped.
    """

    dataset: str = "digits"
    """A name (see gradlex datasets), a .npz archive, or a folder of images."""
    model: str = "small-cnn"
    """A name (see gradlex models), module:factory, or timm:NAME."""
    changes: Changes
    pairs: tuple[str, ...] = ()
    """Comparisons to decide, declared before the runs as METHOD:METHOD, the primary one first. Their p-values are
    adjusted for their number (default: every method against the SGD baselines, unadjusted)."""
    title: str = ""
    """What the comparison asks, as the heading of its report (default: Comparison)."""
    carried: Carried

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Problem": ("dataset", "model", "pairs", "title"),
        "Grid": _GRID,
        "Execution": _EXECUTION,
        "Output": ("out", "list"),
    }
    examples: ClassVar[str] = """
        gradlex compare --dataset digits --seeds 1
        gradlex compare --dataset photos/ --model resnet20 --generations 40
        gradlex compare --dataset data.npz --model module:factory --list
    """

    def __call__(self) -> None:
        """Run it, and print the tables and the verdict."""
        self.carried.check()
        _run(
            comparison_experiment(
                self.dataset,
                self.model,
                out=self.carried.out,
                command=_typed(),
                title=self.title,
                pairs=self.pairs,
                **self.changes.of_grid(),
            ),
            self.carried,
        )


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Run an experiment of the paper; print it beside the published numbers.

    Rerun the command to continue; finished runs are skipped.
    """

    experiment: Annotated[Name, tyro.conf.Positional]
    """table1: architectures and datasets; table2: selection methods; table3: population sizes; table4: momentum;
    figure2: representations."""
    scale: Scale = "smoke"
    """smoke: a minute, offline; small: about three hours on two cores; paper: the paper's setting."""
    datasets: tuple[str, ...] = ()
    """Names, .npz archives or folders."""
    models: tuple[str, ...] = ()
    """Names, or module:factory."""
    changes: Changes
    carried: Carried
    layers: tuple[str, ...] = ()
    """Layers to compare (default: the last two stages)."""
    first: tuple[Path, ...] = ()
    """Finished runs to compare, instead of running any."""
    second: tuple[Path, ...] = ()
    """Finished runs to compare them with."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Grid": ("scale", "datasets", "models", *_GRID),
        "Figure2": ("layers", "first", "second"),
        "Execution": _EXECUTION,
        "Output": ("out", "list"),
    }
    examples: ClassVar[str] = """
        gradlex paper table2
        gradlex paper table1 --scale small --out results
        gradlex paper table1 --scale paper --list
    """

    def __call__(self) -> None:
        """Run it, and print the tables."""
        self.carried.check()
        if self.experiment != "figure2" and (self.first or self.second):
            raise InputError(f"first and second belong to figure2, not to {self.experiment}: leave them out.")
        if self.first or self.second:
            self._compare_finished()
            return
        experiment = paper_experiment(
            self.experiment,
            self.scale,
            out=self.carried.out,
            command=_typed(),
            layers=self.layers,
            datasets=self.datasets,
            models=self.models,
            **self.changes.of_grid(),
        )
        _run(experiment, self.carried)

    def _compare_finished(self) -> None:
        carried = self.carried
        other = dataclasses.replace(carried, out=None, device="auto", data_dir=None)
        if (self.datasets, self.models, self.scale, self.changes, other) != (
            (),
            (),
            "smoke",
            Changes(),
            Carried(),
        ):
            raise InputError("--first and --second compare finished runs: leave out what says which to run.")
        from gradlex._console import console
        from gradlex.report import compare_representations

        written = compare_representations(
            self.first,
            self.second,
            out=carried.out or Path("runs"),
            layers=self.layers,
            command=_typed(),
            device=carried.device,
            data_dir=carried.data_dir,
        )
        text = next(path for path in written if path.suffix == ".txt")
        console().print(text.read_text(encoding="utf-8"), soft_wrap=True)
        console().print(f"written: {', '.join(map(str, written))}", soft_wrap=True)


def _run(experiment: Experiment, carried: Carried) -> None:
    """List the experiment, or run and report it; what failed is named at the end."""
    if carried.listing:
        from gradlex.experiments import list_experiment

        _print_runs(list_experiment(experiment, carried.resources()), experiment.root)
        return
    from gradlex._console import console, plural
    from gradlex.report import run_and_report

    report = run_and_report(experiment, carried.resources())
    out = console()
    if report.runs:
        out.print(report.text(out.width), soft_wrap=True)
        names = ", ".join(path.name for path in report.files)
        out.print(f"written into {report.folder}: {names}", soft_wrap=True)
    if report.failures:
        lines = "\n".join(f"  {failure.job.title}: {failure.reason}" for failure in report.failures)
        raise RunError(f"{len(report.failures)} of {plural(len(report.plan.runs), 'run')} failed:\n{lines}")


def _print_runs(runs: Sequence[tuple[Cell, str]], root: Path) -> None:
    """Print one line per run; what all runs have in common is printed once, above."""
    from rich import box
    from rich.table import Table

    from gradlex._console import console, plural

    out = console()
    lines = [_settings(cell) for cell, _ in runs]
    common = {
        name: value
        for name, value in lines[0].items()
        if name != "method" and all(line[name] == value for line in lines)
    }
    table = Table(box=box.SIMPLE)
    table.add_column("run", justify="right")
    for name in lines[0]:
        if name not in common:
            table.add_column(
                name,
                justify="left" if name in ("method", "dataset", "model") else "right",
                no_wrap=name == "method",
            )
    table.add_column("state", no_wrap=True)
    for number, (line, (_, state)) in enumerate(zip(lines, runs, strict=True), start=1):
        table.add_row(str(number), *(value for name, value in line.items() if name not in common), state)
    if common:
        shared = ", ".join(f"{name} {value}" for name, value in common.items())
        out.print(f"all runs: {shared}", soft_wrap=True)
    out.print(table)
    states = Counter(state for _, state in runs)
    missing = ", data missing (it will be downloaded)" if states["data missing"] else ""
    out.print(
        f"{plural(len(runs), 'run')}, {len(runs) - states['done']} to do{missing}, in {root}", soft_wrap=True
    )


def _settings(cell: Cell) -> dict[str, str]:
    recipe = cell.recipe
    return {
        "method": cell.method,
        "dataset": Path(recipe.dataset).name,
        "model": recipe.model,
        "p": str(recipe.population or 1),
        "momentum": recipe.momentum or "inherit",
        "generations": str(recipe.generations),
        "batch": str(recipe.batch_size),
        "lr": f"{recipe.lr:g}",
        "decay": f"{recipe.weight_decay:g}",
        "seed": str(recipe.seed),
    }


def _typed() -> str:
    """The command as it was typed, to be typed again."""
    return shlex.join(["gradlex", *sys.argv[1:]])
