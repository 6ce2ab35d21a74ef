"""report.html of a folder of experiments: the verdict, every seed, differences, cost, and what is missing."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gradlex.data import Arrays
from gradlex.experiments import FIGURE2, Plan, stored_plans
from gradlex.report._comparison import BASELINES, comparable
from gradlex.report._evidence import (
    CRITICAL_PATH,
    SAMPLES,
    Arm,
    Evidence,
    Setting,
    cost_names,
    full_title,
    gather,
)
from gradlex.report._format import NONE, difference_words, label, listed, number_of, plain, spread
from gradlex.report._outcome import read_run
from gradlex.report._paper_tables import TITLES
from gradlex.report._provenance import shown_command
from gradlex.report._report import figure2_numbers, report_parts
from gradlex.report._run_words import measures_of, shown_value
from gradlex.report._statistics import paired
from gradlex.report._table import Table
from gradlex.report.html._chart import Chart, Intervals, Mark, Point, Series, per_cent, short
from gradlex.report.html._render import PAGE, render, write_page
from gradlex.report.html._run_page import write_run_page

_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
_COSTS = {
    SAMPLES: "the samples trained on, in all",
    CRITICAL_PATH: "the samples that one device trains on when every candidate has its own",
}
_NAMES = {"compare": "Comparison", FIGURE2: "Figure 2", **{f"table{n}": f"Table {n}" for n in range(1, 5)}}


def write_experiment_page(root: Path | str) -> list[Path]:
    """Write report.html into a folder of experiments and into each of its runs; returns the files, its own first.

    Examples:
        >>> from gradlex.report import write_experiment_page
        >>> [path.name for path in write_experiment_page("results")]  # its own, and one for each run
        ['report.html', 'report.html', 'report.html']
    """
    root = Path(root)
    plans = stored_plans(root)
    evidences = [gather(plan) for plan in plans]
    loaded: dict[tuple[Any, ...], Arrays] = {}
    runs = dict.fromkeys(
        path
        for plan in plans
        for planned in plan.runs
        if ((path := plan.path(planned)) / "recipe.json").exists()
    )
    written = [write_run_page(path, loaded=loaded) for path in runs]
    return [write_page(root / PAGE, _page(root, evidences)), *written]


def _page(root: Path, evidences: Sequence[Evidence]) -> str:
    # What was made to decide something comes first.
    in_order = sorted(evidences, key=lambda each: not each.plan.pairs)
    sections = [_section(root, evidence, f"experiment{place}") for place, evidence in enumerate(in_order)]
    settings = dict.fromkeys(str(setting) for evidence in evidences for setting in evidence.settings)
    name = root.resolve().name or str(root)
    title = next(iter(settings)) if len(settings) == 1 else name
    runs = [run for section in sections for run in section["runs"]]
    finished = sum(run["state"] == "finished" for run in runs)
    return render(
        "experiment.html",
        title=f"{title}: {listed(list(dict.fromkeys(section['kind'] for section in sections)))}",
        verdicts=[_SENTENCE.split(text, maxsplit=1) for section in sections for text in section["verdicts"]],
        state=f"{finished} of {number_of(len(runs), 'run')} finished.",
        sections=sections,
    )


def _section(root: Path, evidence: Evidence, anchor: str) -> dict[str, Any]:
    plan = evidence.plan
    parts = [] if plan.name == FIGURE2 or not evidence.settings else report_parts(evidence)
    kind = _NAMES.get(plan.name, plan.name)
    return {
        "id": anchor,
        "kind": kind.lower(),
        "name": plan.title or kind,
        "about": TITLES.get(plan.name, ""),
        "verdicts": [part for part in parts if isinstance(part, str)],
        "settings": [
            _setting(root, evidence, setting) for setting in evidence.settings if plan.name != FIGURE2
        ],
        "tables": [part for part in parts if isinstance(part, Table)],
        "figure": _figure(plan) if plan.name == FIGURE2 else None,
        "numbers": figure2_numbers(plan, "txt") if plan.name == FIGURE2 else None,
        "missing": evidence.missing,
        "runs": _runs(root, plan),
        "command": shown_command(plan.command),
    }


def _setting(root: Path, evidence: Evidence, setting: Setting) -> dict[str, Any]:
    arms = list(evidence.on(setting).values())
    colours = {arm.title: number for number, arm in enumerate(arms)}
    return {
        "name": str(setting),
        "finals": _finals(root, arms, colours),
        "differences": _differences(arms, colours),
        "charts": [
            chart
            for draw in (_cost, _curves)
            for cost in cost_names(arms)
            if (chart := draw(arms, cost, colours))
        ],
    }


def _finals(root: Path, arms: Sequence[Arm], colours: dict[str, int]) -> Intervals:
    measure = arms[0].measure
    better = "higher" if measure.higher_is_better else "lower"
    return Intervals(
        title=f"Final test {measure.name}, every seed",
        summary=f"A circle for each seed, which links to its run; the stroke is the mean, the bar its 95 % interval; "
        f"{better} is better.",
        x_name=label("test", measure),
        marks=tuple(_final(root, arm, colours[arm.title]) for arm in arms),
        bounds=(0.0, 100.0) if measure.fraction else None,
    )


def _final(root: Path, arm: Arm, colour: int) -> Mark:
    summary, number = arm.summary, len(arm.runs)
    points = tuple(
        Point(
            value=run.test,
            text=f"seed {seed}: {run.test:{arm.unit.form}}{' %' if arm.measure.fraction else ''}",
            link=_link(root, run.path),
            height=50 + (0 if number == 1 else 22 * (2 * place / (number - 1) - 1)),
        )
        for place, (seed, run) in enumerate(arm.runs.items())
    )
    return Mark(
        name=full_title(arm),
        points=points,
        mean=summary.mean if number > 1 else None,
        low=summary.low,
        high=summary.high,
        text=f"{spread(summary, arm.unit)}{' %' if arm.measure.fraction else ''}, {number_of(number, 'seed')}",
        colour=colour,
    )


def _differences(arms: Sequence[Arm], colours: dict[str, int]) -> list[Intervals]:
    """Of each method from each baseline that it may be compared with, paired by seed."""
    found = []
    for base in (arm for arm in arms if arm.method in BASELINES):
        marks = []
        for arm in arms:
            if arm is base or not comparable(arm, base):
                continue
            difference = paired(arm.values, base.values)
            if difference is None:
                continue
            shared = [seed for seed in arm.values if seed in base.values]
            points = tuple(
                Point(
                    value=arm.values[seed] - base.values[seed],
                    text=f"seed {seed}: {arm.unit.signed(arm.values[seed] - base.values[seed])}",
                    height=50 + (0 if len(shared) == 1 else 22 * (2 * place / (len(shared) - 1) - 1)),
                )
                for place, seed in enumerate(shared)
            )
            marks.append(
                Mark(
                    name=full_title(arm),
                    points=points,
                    mean=difference.mean,
                    low=difference.low,
                    high=difference.high,
                    text=difference_words(difference, arm.unit),
                    colour=colours[arm.title],
                )
            )
        if marks:
            unit = ", percentage points" if base.measure.fraction else ""
            found.append(
                Intervals(
                    title=f"Difference from {full_title(base)}",
                    summary="Paired by seed: the stroke is the mean, the bar its 95 % interval. Where the bar holds "
                    "zero, nothing can be concluded.",
                    x_name=f"test {base.measure.name}{unit}",
                    marks=tuple(marks),
                    zero=True,
                )
            )
    return found


def _cost(arms: Sequence[Arm], cost: str, colours: dict[str, int]) -> Chart:
    points = sorted(
        (arm.costs[cost][run.generations], run.test, arm.title) for arm in arms for run in arm.runs.values()
    )
    measure = arms[0].measure
    return Chart(
        title=f"Test {measure.name} by {cost}",
        summary=f"A point for each run: {_COSTS[cost]}.",
        x=[samples for samples, _, _ in points],
        x_name=cost,
        y_name=label("test", measure),
        series=tuple(
            Series(
                name=full_title(arm),
                values=[value if title == arm.title else None for _, value, title in points],
                colour=colours[arm.title],
                kind="dots",
            )
            for arm in arms
        ),
        show=_show(arms[0]),
    )


def _curves(arms: Sequence[Arm], cost: str, colours: dict[str, int]) -> Chart | None:
    means = {
        arm.title: {arm.costs[cost][generations]: mean for generations, mean in arm.curve.items()}
        for arm in arms
    }
    x = sorted({place for line in means.values() for place in line})
    if not x:
        return None
    measure = arms[0].measure
    return Chart(
        title=f"Test {measure.name} while training, by {cost}",
        summary=f"The mean over seeds where all of them were evaluated, by {_COSTS[cost]}.",
        x=x,
        x_name=cost,
        y_name=label("test", measure),
        series=tuple(
            Series(
                name=full_title(arm),
                values=[means[arm.title].get(place) for place in x],
                colour=colours[arm.title],
                kind="thin" if len(arms) > 3 else "line",
                joined=True,
            )
            for arm in arms
        ),
        show=_show(arms[0]),
    )


def _show(arm: Arm) -> Callable[[float], str]:
    return per_cent if arm.measure.fraction else short


def _runs(root: Path, plan: Plan) -> list[dict[str, Any]]:
    """Every planned run: its method and seed, how far it is, what it reached, and its page."""
    found = []
    for planned in plan.runs:
        path = plan.path(planned)
        row = {
            "method": plain(planned.method),
            "seed": planned.recipe.seed,
            "name": plain(planned.run),
            "state": "not started",
            "metric": NONE,
            "link": None,
        }
        if (path / "recipe.json").exists():
            run = read_run(path)
            total = planned.recipe.generations
            row["link"] = _link(root, path)
            row["state"] = (
                "finished" if run.result is not None else f"generation {len(run.generations):,} of {total:,}"
            )
            measures = measures_of(run)
            if run.result is not None and measures:
                value = run.result["metrics"].get("test", {}).get(measures[0].name)
                row["metric"] = shown_value(value, measures[0])
        if planned.failure is not None:
            row["state"] = f"failed: {plain(' '.join(planned.failure.split()))}"
        found.append(row)
    return found


def _link(root: Path, run: Path) -> str:
    """The address of a run's page, seen from the folder's."""
    return quote(os.fsencode(Path(os.path.relpath(run / PAGE, root)).as_posix()))


def _figure(plan: Plan) -> str | None:
    path = plan.root / f"{FIGURE2}.png"
    if not path.exists():
        return None
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
