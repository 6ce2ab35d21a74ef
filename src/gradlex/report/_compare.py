"""gradlex.compare and gradlex.paper: a whole experiment in one call, as the command prints it."""

from __future__ import annotations

import functools
import html
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gradlex._console import plural
from gradlex.errors import InputError, InterruptedRun
from gradlex.experiments import (
    Experiment,
    Failure,
    Plan,
    Resources,
    Scale,
    check_same_images,
    comparison_experiment,
    paper_experiment,
    record_activations,
    run_experiment,
)
from gradlex.report._evidence import gather
from gradlex.report._figure2 import draw_figure2
from gradlex.report._report import report_parts, text_report, write_report
from gradlex.report._table import Table
from gradlex.runs import StoredRun, check_writable, stored_run


@dataclass(frozen=True, kw_only=True, repr=False)
class ExperimentReport:
    """An experiment that was run: its tables, what they support, and its runs.

    Examples:
        >>> from pathlib import Path
        >>> from gradlex.experiments import stored_plan
        >>> from gradlex.report import ExperimentReport
        >>> report = ExperimentReport(plan=stored_plan(Path("results/compare.json")), failures=(), files=())
        >>> report  # read again from its folder
        <compare: 2 finished runs, in results>
        >>> report.tables[0].title
        'Results and cost: small-cnn on digits'
        >>> "too few for a conclusion" in report.verdict
        True
    """

    plan: Plan
    failures: tuple[Failure, ...]
    """Runs that ended without a result, and why."""
    files: tuple[Path, ...]
    """The tables and plots that were written."""

    @property
    def folder(self) -> Path:
        """Where the runs and the report are."""
        return self.plan.root

    @functools.cached_property
    def runs(self) -> list[StoredRun]:
        """The finished runs, in the plan's order."""
        paths = (self.plan.path(planned) for planned in self.plan.runs)
        return [stored_run(path) for path in paths if (path / "result.json").exists()]

    @functools.cached_property
    def tables(self) -> list[Table]:
        """The tables of the report."""
        return [part for part in self._parts if isinstance(part, Table)]

    @functools.cached_property
    def verdict(self) -> str:
        """What the evidence supports, in plain sentences."""
        return "\n".join(part for part in self._parts if isinstance(part, str))

    @functools.cached_property
    def _parts(self) -> list[Table | str]:
        parts: list[Table | str] = report_parts(gather(self.plan))
        return parts

    def text(self, width: int = 120) -> str:
        """The whole report for a terminal of this width."""
        return text_report(self.plan, width)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        done = plural(len(self.runs), "finished run")
        return f"<{self.plan.name}: {done}{failed}, in {self.folder}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


def compare(
    dataset: str = "digits",
    model: str = "small-cnn",
    *,
    methods: Sequence[str] = (),
    populations: Sequence[int] = (),
    momenta: Sequence[str] = (),
    seeds: int | None = None,
    generations: int | None = None,
    recipe: Mapping[str, Any] | None = None,
    pairs: Sequence[tuple[str, str] | str] = (),
    title: str = "",
    out: str | Path | None = None,
    jobs: int | Literal["auto"] = "auto",
    evaluations: int = 10,
    device: str | None = None,
    data_dir: str | Path | None = None,
    progress: bool = True,
) -> ExperimentReport:
    """Does it help on your data? Compare SGD, SGD of equal cost, and selection on a model.

    `dataset` is a name, a .npz archive or a folder of images, `model` a name, module:factory or timm:NAME. `recipe`
    changes fields of all runs: `{"lr": 0.05}`. `generations` are epochs of the SGD baseline; a population of p has
    p + 1 times as many. `pairs` are comparisons declared before the runs, `("lexicase", "sgd")`, the primary one first;
    `title` says what they ask. Runs are written into `out` (None: a folder under runs/); call it again to continue,
    finished runs are skipped. A script needs an `if __name__ == "__main__"` guard, since runs have processes of their
    own.

    Examples:
        >>> import gradlex
        >>> report = gradlex.compare(methods=["sgd", "lexicase"], generations=1, seeds=1, out="results", progress=False)
        >>> report  # these runs were finished before, and are not run again
        <compare: 2 finished runs, in results>
        >>> [run.recipe.selection for run in report.runs]
        ['sgd', 'lexicase']
    """
    changes = {
        "methods": methods,
        "populations": populations,
        "momenta": momenta,
        "seeds": seeds,
        "generations": generations,
        "recipe": recipe,
    }
    command = _call("compare", dataset, model, **changes, pairs=pairs, title=title)
    return _run(
        comparison_experiment(
            dataset, model, out=_path(out), command=command, pairs=pairs, title=title, **changes
        ),
        Resources(jobs=jobs, evaluations=evaluations, device=device, data_dir=_path(data_dir)),
        progress=progress,
    )


def paper(
    experiment: str,
    scale: Scale = "smoke",
    *,
    datasets: Sequence[str] = (),
    models: Sequence[str] = (),
    methods: Sequence[str] = (),
    populations: Sequence[int] = (),
    momenta: Sequence[str] = (),
    seeds: int | None = None,
    generations: int | None = None,
    recipe: Mapping[str, Any] | None = None,
    layers: Sequence[str] = (),
    out: str | Path | None = None,
    jobs: int | Literal["auto"] = "auto",
    evaluations: int = 10,
    device: str | None = None,
    data_dir: str | Path | None = None,
    progress: bool = True,
) -> ExperimentReport:
    """Run one of the paper's experiments: table1, table2, table3, table4 or figure2.

    `scale` is smoke (a minute), small (about three hours on two cores) or paper (the paper's setting). `layers` are
    those that figure2 compares (default: the last two stages). Everything else is as in `compare`.

    Examples:
        >>> import gradlex
        >>> small = {"datasets": ["digits"], "models": ["small-cnn"], "methods": ["sgd", "lexicase"]}
        >>> report = gradlex.paper("table2", **small, generations=1, seeds=1, out="results", progress=False)
        >>> report  # these runs were finished before, and are not run again
        <table2: 2 finished runs, in results>
    """
    changes = {
        "datasets": datasets,
        "models": models,
        "methods": methods,
        "populations": populations,
        "momenta": momenta,
        "seeds": seeds,
        "generations": generations,
        "recipe": recipe,
    }
    command = _call("paper", experiment, scale, **changes, layers=layers)
    return _run(
        paper_experiment(experiment, scale, out=_path(out), command=command, layers=layers, **changes),
        Resources(jobs=jobs, evaluations=evaluations, device=device, data_dir=_path(data_dir)),
        progress=progress,
    )


def run_and_report(
    experiment: Experiment, resources: Resources | None = None, *, progress: bool = True
) -> ExperimentReport:
    """Run what is not finished yet and write the report; what failed is named in it."""
    done = run_experiment(experiment, resources, progress=progress)
    finished = any((done.plan.path(planned) / "result.json").exists() for planned in done.plan.runs)
    files = tuple(write_report(done.plan)) if finished else ()
    return ExperimentReport(plan=done.plan, failures=done.failures, files=files)


def compare_representations(
    first: Sequence[Path],
    second: Sequence[Path],
    *,
    out: Path,
    layers: Sequence[str] = (),
    command: str = "",
    device: str | None = None,
    data_dir: Path | None = None,
) -> list[Path]:
    """Figure 2 for two sets of finished runs; the files that were written."""
    if not first or not second:
        raise InputError("figure2 compares two sets of runs: give --first RUN ... and --second RUN ...")
    check_writable(out)
    runs = {run: stored_run(run) for run in (*first, *second)}
    check_same_images(list(runs.values()))
    for run in runs:
        record_activations(run, layers=layers or None, device=device, data_dir=data_dir)
    out.mkdir(parents=True, exist_ok=True)
    sets = {"first": list(first), "second": list(second)}
    notes = [f"{title}: {', '.join(run.resolve().name for run in paths)}." for title, paths in sets.items()]
    if command:
        notes.append(f"Made by: {command}")
    return draw_figure2(sets, out / "figure2-runs", layers=layers or None, notes=notes)


def _run(experiment: Experiment, resources: Resources, *, progress: bool) -> ExperimentReport:
    try:
        return run_and_report(experiment, resources, progress=progress)
    except InterruptedRun as interruption:  # which is the command's; a notebook knows Ctrl-C
        if interruption.exit_code == 128 + signal.SIGINT:
            raise KeyboardInterrupt(str(interruption)) from None
        raise


def _call(name: str, *positional: object, **keywords: Any) -> str:
    """The call as it would be written again, without what was left out."""
    given = {key: value for key, value in keywords.items() if value not in (None, (), [], {})}
    words = [*map(repr, positional), *(f"{key}={value!r}" for key, value in given.items())]
    return f"gradlex.{name}({', '.join(words)})"


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)
