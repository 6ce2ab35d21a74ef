"""report.html of one run: what it reached and cost, how it selected, which cases decided, where the network fails."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from gradlex.data import Arrays
from gradlex.recipe import GIVEN, Recipe
from gradlex.report._format import NONE, count, duration, listed, memory, number_of, plain
from gradlex.report._outcome import read_run
from gradlex.report._run_words import (
    measures_of,
    method_of,
    selection_words,
    setting_of,
    shown_value,
    state_of,
    train_command,
)
from gradlex.report.html._chart import short
from gradlex.report.html._render import PAGE, render, write_page
from gradlex.report.html._run_cases import RunCases
from gradlex.report.html._run_charts import candidate_rows, curve_charts, lineage_chart, selection_charts
from gradlex.report.html._samples import Samples
from gradlex.runs import RunFolder, StoredRun, stored_environment


def write_run_page(path: Path | str, *, loaded: dict[tuple[Any, ...], Arrays] | None = None) -> Path:
    """Write report.html into a run folder; returns the file. `loaded` keeps data for other runs on the same.

    Examples:
        >>> from gradlex.report import write_run_page
        >>> path = write_run_page("runs/mine")
        >>> path.name, path.stat().st_size < 6_000_000  # one file that needs no network
        ('report.html', True)
    """
    run = read_run(Path(path))
    return write_page(run.path / PAGE, _page(run, Samples(run, loaded)))


def _page(run: StoredRun, samples: Samples) -> str:
    head, cases = _Head(run), RunCases(run, samples)
    environment = stored_environment(RunFolder(run.path))
    recipe, usual = run.recipe.to_dict(), Recipe().to_dict()
    names = run.data.get("class_names")
    return render(
        "run.html",
        title=f"{setting_of(run.recipe)}: {method_of(run.recipe)}",
        answer=head.answer,
        sentences=head.sentences,
        tiles=head.tiles,
        curves=curve_charts(run, head.measures),
        selection=selection_words(run),
        selection_charts=selection_charts(run),
        cases=cases,
        data_note=samples.missing,
        begun=_begun(run.recipe, environment),
        lineage=lineage_chart(run),
        candidates=candidate_rows(run.generations),
        command=train_command(run.recipe),
        recipe=_rows({name: value for name, value in recipe.items() if value != usual[name]}),
        defaults=_rows({name: value for name, value in recipe.items() if value == usual[name]}),
        environment=_rows(
            {name: value for name, value in environment.items() if value not in (None, [], "")}
        ),
        data=[
            *_rows(
                {
                    n: v
                    for n, v in run.data.items()
                    if v is not None and n not in ("class_names", "path_from_run")
                }
            ),
            *([("class_names", listed(names))] if names else []),
        ],
    )


class _Head:
    """What the page begins with."""

    def __init__(self, run: StoredRun) -> None:
        self.run, self.measures = run, measures_of(run)

    @property
    def answer(self) -> tuple[str, str]:
        """The primary metric, and what it is."""
        found = self._metrics()
        if not self.measures or not found:
            return NONE, "no metric yet: nothing was evaluated"
        part, metrics = next(iter(found.items()))
        measure = self.measures[0]
        better = "higher" if measure.higher_is_better else "lower"
        so_far = "" if self.run.result is not None else ", so far"
        where = {"test": "test", "train": "training"}.get(part, part)
        return shown_value(
            metrics.get(measure.name), measure
        ), f"{where} {measure.name}{so_far} ({better} is better)"

    def _metrics(self) -> dict[str, Any]:
        """Of the final network, or of the last evaluation; the test part first."""
        if self.run.result is not None:
            found = self.run.result["metrics"]
            return {part: found[part] for part in ("test", "validation", "train", "ema") if part in found}
        evaluated = [record.metrics for record in self.run.generations if record.metrics]
        return dict(evaluated[-1]) if evaluated else {}

    @property
    def sentences(self) -> list[str]:
        run, result = self.run, self.run.result
        found = [state_of(run)]
        if result is None:
            seconds = sum(record.train_seconds + record.select_seconds for record in run.generations)
            resume = (
                "call gradlex.train again with resume=True"
                if GIVEN in run.recipe.to_dict().values()
                else f"run gradlex resume {shlex.quote(str(run.path))}"
            )
            return [
                *found,
                f"{duration(seconds)} of training and selection so far. To continue, {plain(resume)}.",
            ]
        cost = f"It trained on {count(result['samples_trained'])} samples in {duration(result['seconds'])}"
        cases = (
            f" and evaluated {count(result['cases_evaluated'])} cases to select"
            if result["cases_evaluated"]
            else ""
        )
        return [*found, f"{cost}{cases}."]

    @property
    def tiles(self) -> list[tuple[str, str]]:
        run, result = self.run, self.run.result or {}
        words = {"test": "test", "train": "training", "ema": "moving average, test"}
        found = [
            (f"{words.get(part, part)} {measure.name}", shown_value(metrics.get(measure.name), measure))
            for part, metrics in self._metrics().items()
            for measure in self.measures
        ]
        found.append(("generations", count(len(run.generations))))
        if result:
            found += [
                ("samples trained", short(result["samples_trained"])),
                ("cases evaluated", short(result["cases_evaluated"])),
                ("time", duration(result["seconds"])),
                ("parameters", short(result["parameters"]) if result.get("parameters") else NONE),
                ("peak memory", memory(result.get("peak_memory"))),
            ]
        return [(name, value) for name, value in found if value != NONE]


def _begun(recipe: Recipe, environment: dict[str, Any]) -> str:
    """Where the first parent came from."""
    begun = environment.get("begin_with")
    if isinstance(begun, str):
        return f"The first {number_of(recipe.branch, 'generation')} are those of the run {begun}."
    if recipe.init_from is not None:
        return f"The first parent has the weights of {recipe.init_from}."
    return "The first parent has random weights, which the seed decides."


def _rows(fields: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, _cell(value)) for name, value in fields.items()]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return plain(", ".join(f"{key} {_cell(each)}" for key, each in value.items())) or "none"
    if isinstance(value, list | tuple):
        return plain(", ".join(_cell(each) for each in value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else plain("none" if value is None else value)
