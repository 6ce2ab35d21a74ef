"""Evidence: the finished runs of a plan, by dataset, model and method, and which runs are missing."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PureWindowsPath
from typing import get_args

from gradlex._checks import check
from gradlex.errors import InputError, unknown_name
from gradlex.experiments import EXPERIMENTS, METHODS, Plan, Planned, published
from gradlex.recipe import Momentum, Recipe
from gradlex.report._format import Unit, listed, number_of, plain, unit_of
from gradlex.report._outcome import Outcome, outcome, read_run
from gradlex.report._statistics import Summary, summarize
from gradlex.runs import StoredRun
from gradlex.tasks import Measure

FIGURE2, COMPARE = "figure2", "compare"
SAMPLES, CRITICAL_PATH = "samples trained", "critical path"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What methods are compared on: a dataset and a model, under the names that tables show."""

    dataset: str
    model: str

    def __str__(self) -> str:
        return f"{self.model} on {self.dataset}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One method on one dataset and model, and its title there."""

    setting: Setting
    method: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The finished runs of one column, by seed."""

    setting: Setting
    method: str
    title: str
    runs: Mapping[int, Outcome]

    @property
    def column(self) -> Column:
        """Where its runs stand in the plan."""
        return Column(setting=self.setting, method=self.method, title=self.title)

    @property
    def recipe(self) -> Recipe:
        """What the runs have in common; the seed is the first run's."""
        return next(iter(self.runs.values())).recipe

    @property
    def measure(self) -> Measure:
        """The primary measure."""
        return next(iter(self.runs.values())).measure

    @property
    def unit(self) -> Unit:
        """How its values are printed."""
        return unit_of(self.measure)

    @property
    def values(self) -> dict[int, float]:
        """The primary measure on the test samples after the last generation, by seed; fractions in per cent."""
        return {seed: run.test for seed, run in self.runs.items()}

    @property
    def summary(self) -> Summary:
        """Mean, deviation and interval of `values`."""
        return summarize(list(self.values.values()))

    @property
    def train_summary(self) -> Summary | None:
        """The same on the clean training samples; None unless every run has it."""
        values = [run.train for run in self.runs.values() if run.train is not None]
        return summarize(values) if len(values) == len(self.runs) else None

    @property
    def curve(self) -> dict[int, float]:
        """The mean over seeds while training, by generations, where all of them were evaluated."""
        lines = [run.curve for run in self.runs.values()]
        shared = sorted(set.intersection(*(set(line) for line in lines)))
        return {generations: summarize([line[generations] for line in lines]).mean for generations in shared}

    @property
    def costs(self) -> dict[str, Sequence[int]]:
        """What a number of generations costs, by the name of the cost."""
        run = max(self.runs.values(), key=lambda run: run.generations)
        return {SAMPLES: run.samples_after, CRITICAL_PATH: run.critical_path_after}


def cost_names(arms: Iterable[Arm]) -> list[str]:
    """The costs to show accuracy against: the critical path only where a population makes it shorter."""
    shorter = any(arm.costs[CRITICAL_PATH] != arm.costs[SAMPLES] for arm in arms)
    return [SAMPLES, CRITICAL_PATH] if shorter else [SAMPLES]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A plan, its finished runs, and one line for each column that lacks some."""

    plan: Plan
    arms: tuple[Arm, ...]
    missing: tuple[str, ...]
    failed: Mapping[Column, int]
    """How many runs of a column failed; no mean includes them."""
    awaited: Mapping[Column, frozenset[int]]
    """The seeds of a column that are planned and have neither finished nor failed."""

    @property
    def settings(self) -> list[Setting]:
        """The datasets and models that have finished runs, in the plan's order."""
        return list(dict.fromkeys(arm.setting for arm in self.arms))

    def where(self, setting: Setting) -> str:
        """What a comparison was made on: the experiment's title, and the setting where it has several."""
        title = self.plan.title
        if not title:
            return str(setting)
        return title if len(self.settings) == 1 else f"{title}: {setting}"

    @property
    def missing_notes(self) -> tuple[str, ...]:
        """The missing runs as notes below a table."""
        return tuple(f"Not finished: {line}" for line in self.missing)

    def on(self, setting: Setting) -> dict[str, Arm]:
        """The arms of one setting by their titles, in the order of the methods."""
        found = [arm for arm in self.arms if arm.setting == setting]
        return {arm.title: arm for arm in sorted(found, key=arm_order)}


@dataclass(frozen=True, kw_only=True)
class _Missing:
    """A planned run without a result; `run` is None where it was not started."""

    column: Column
    planned: Planned
    run: StoredRun | None


def gather(plan: Plan) -> Evidence:
    """Read all runs of a plan."""
    _check_plan(plan)
    found = _columns(plan)
    finished, missing = list[tuple[Column, Outcome]](), list[_Missing]()
    for column, planned in zip(found, plan.runs, strict=True):
        path = plan.path(planned)
        run = read_run(path) if (path / "recipe.json").exists() else None
        if run is None or run.result is None:
            missing.append(_Missing(column=column, planned=planned, run=run))
        else:
            finished.append((column, outcome(run)))
    finished = _whole(finished, missing)
    failed = Counter(each.column for each in missing if each.planned.failure is not None)
    awaited: dict[Column, frozenset[int]] = {}
    for each in missing:
        if each.planned.failure is None:
            awaited[each.column] = awaited.get(each.column, frozenset()) | {each.planned.recipe.seed}
    return Evidence(
        plan=plan,
        arms=_arms(plan.name, finished),
        missing=_missing_lines(found, missing),
        failed=failed,
        awaited=awaited,
    )


def _whole(
    finished: list[tuple[Column, Outcome]], missing: Sequence[_Missing]
) -> list[tuple[Column, Outcome]]:
    """Without separate runs of which some are missing: the best of a part is not the best."""
    open_ = {
        (each.column, each.planned.recipe.seed) for each in missing if METHODS[each.planned.method].tries
    }
    return [(column, run) for column, run in finished if (column, run.recipe.seed) not in open_]


def arm_order(arm: Arm) -> tuple[int, int, int]:
    """The order of columns: by method, population and momentum."""
    recipe, momenta = arm.recipe, (None, *get_args(Momentum))
    number = recipe.generations if METHODS[arm.method].is_sgd else recipe.population
    return list(METHODS).index(arm.method), number or 0, momenta.index(recipe.momentum)


def full_title(column: Column | Arm) -> str:
    """The title with its method, which the columns of tables 3 and 4 leave out."""
    method = METHODS[column.method].title
    return column.title if method in column.title else f"{method}, {column.title}"


def _check_plan(plan: Plan) -> None:
    """Refuse what an edited ROOT/<name>.json may hold."""
    known = (*EXPERIMENTS, COMPARE)
    if plan.name not in known:
        raise unknown_name("experiment", str(plan.name), known)
    for name, value in (("scale", plan.scale), ("command", plan.command), ("title", plan.title)):
        if not isinstance(value, str):
            raise InputError(f"{plan.file}: {name} must be text, got {value!r}.")
    for method in {method for pair in plan.pairs for method in pair}:
        if not isinstance(method, str) or method not in METHODS:
            raise unknown_name("method", str(method), METHODS)
    for layer in plan.layers:
        check(f"{plan.file}: layer", str, layer)
    for planned in plan.runs:
        check(f"{plan.file}: run", str, planned.run)
        check(f"{plan.file}: failure", str | None, planned.failure)
        if not isinstance(planned.method, str) or planned.method not in METHODS:
            raise unknown_name("method", str(planned.method), METHODS)


def _arms(experiment: str, finished: Sequence[tuple[Column, Outcome]]) -> tuple[Arm, ...]:
    runs: dict[Column, dict[int, Outcome]] = {}
    firsts: dict[Setting, Outcome] = {}
    for column, run in finished:
        first, cure = firsts.setdefault(column.setting, run), f"Take one of them out of {experiment}.json."
        if first.fingerprint != run.fingerprint:
            raise InputError(
                f"{run.path} and {first.path} were trained on different data of the same name. {cure}"
            )
        if first.measure != run.measure:
            raise InputError(
                f"{run.path} reports {run.measure.name} and {first.path} {first.measure.name}: they cannot be "
                f"compared. {cure}"
            )
        seeds = runs.setdefault(column, {})
        seed = run.recipe.seed
        if METHODS[column.method].tries:
            seeds[seed] = _better(seeds.get(seed), run)
            continue
        if seed in seeds:
            raise InputError(
                f"{run.path} and {seeds[seed].path} are both {column.title}, seed {seed}. {cure}"
            )
        seeds[seed] = run
    return tuple(Arm(**vars(column), runs=dict(sorted(seeds.items()))) for column, seeds in runs.items())


def _better(before: Outcome | None, run: Outcome) -> Outcome:
    """Of separate runs the best on the validation part, with the cost of all."""
    if run.validation is None:
        raise InputError(f"{run.path} has no validation {run.measure.name}, by which the best run is picked.")
    if before is None:
        return run
    sign = 1 if run.measure.higher_is_better else -1
    best = run if sign * run.validation > sign * (before.validation or 0.0) else before
    memory = [each.peak_memory for each in (before, run) if each.peak_memory is not None]
    return replace(
        best,
        samples_trained=before.samples_trained + run.samples_trained,
        cases_evaluated=before.cases_evaluated + run.cases_evaluated,
        seconds=before.seconds + run.seconds,
        peak_memory=max(memory, default=None),
        tries=before.tries + run.tries,
    )


# Columns: the place of a run in the tables follows from its recipe, finished or not.


def _columns(plan: Plan) -> list[Column]:
    sizes, momenta = _varied(plan.runs)
    varied = plan.name == "table3" or sizes, plan.name == "table4" or momenta
    return [
        Column(
            setting=_setting(planned.recipe),
            method=planned.method,
            title=_title(plan.name, planned.method, planned.recipe, varied),
        )
        for planned in plan.runs
    ]


def _varied(runs: Sequence[Planned]) -> tuple[bool, bool]:
    """Whether one dataset and model has several population sizes, and whether it has several momenta."""
    sizes: dict[tuple[object, ...], set[int | None]] = {}
    momenta: dict[tuple[object, ...], set[str | None]] = {}
    for planned in runs:
        recipe, method = planned.recipe, METHODS[planned.method]
        place = (recipe.dataset, recipe.model, recipe.width)
        if method.matched or method.tries:  # its epochs tell which population it matches
            sizes.setdefault((*place, method.name), set()).add(recipe.generations)
        elif not method.is_sgd:
            sizes.setdefault(place, set()).add(recipe.population)
            momenta.setdefault(place, set()).add(recipe.momentum)
    return any(len(found) > 1 for found in sizes.values()), any(len(found) > 1 for found in momenta.values())


def _setting(recipe: Recipe) -> Setting:
    spelling = _spellings()
    # Only the last part of a path, on any system: the folder means nothing to a reader.
    dataset = PureWindowsPath(recipe.dataset).name or recipe.dataset
    model = spelling.get(recipe.model, recipe.model)
    width = "" if recipe.width == 1 else f", width {recipe.width:g}"
    return Setting(dataset=plain(spelling.get(dataset, dataset)), model=plain(f"{model}{width}"))


@functools.cache
def _spellings() -> dict[str, str]:
    """The paper's spelling of names that a recipe may have."""
    names = [name for cell in published("table1") for name in (cell.dataset, cell.model)]
    return {name.lower().replace("-", ""): name for name in names}


def _title(experiment: str, method: str, recipe: Recipe, varied: tuple[bool, bool]) -> str:
    """The method, with the population and the momentum where these vary."""
    title = METHODS[method].title
    if (METHODS[method].matched or METHODS[method].tries) and varied[0]:
        return f"{title}, {recipe.generations} epochs"
    if METHODS[method].is_sgd or not any(varied):
        return title
    parts = (f"p = {recipe.population}", str(recipe.momentum))
    variant = ", ".join(part for part, varies in zip(parts, varied, strict=True) if varies)
    # Tables 3 and 4 are about lexicase alone: as in the paper, its columns carry only what varies.
    return variant if method == "lexicase" and experiment in ("table3", "table4") else f"{title}, {variant}"


# Missing runs.


def _missing_lines(columns: Sequence[Column], missing: Sequence[_Missing]) -> tuple[str, ...]:
    """One line for each column: how many planned runs have no result, how far they are, or why they failed."""
    numbers = Counter(columns)
    several = len({column.setting for column in columns}) > 1
    lines = []
    for column, planned in numbers.items():
        found = [each for each in missing if each.column == column]
        if not found:
            continue
        idle = [each for each in found if each.run is None and each.planned.failure is None]
        parts = [_progress(each) for each in found if each not in idle]
        if idle:
            seeds = list(dict.fromkeys(each.planned.recipe.seed for each in idle))
            parts.append(f"seed{'s' if len(seeds) > 1 else ''} {listed(seeds)} not started")
        where = f", {column.setting}" if several else ""
        runs = number_of(planned, "run")
        lines.append(f"{len(found)} of {runs} of {full_title(column)}{where} ({'; '.join(parts)}).")
    return tuple(lines)


def _progress(missing: _Missing) -> str:
    recipe, done = missing.planned.recipe, len(missing.run.generations) if missing.run else 0
    where = f"seed {recipe.seed} at generation {done} of {recipe.generations}"
    if missing.planned.failure is None:
        return where
    reason = " ".join(missing.planned.failure.split()).rstrip(".")
    return f"{where} failed: {plain(reason)}"
