"""What is said of a run in a line or two, on its page and in a terminal; and the command that makes it again."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import PureWindowsPath
from statistics import median
from typing import Any

from gradlex.recipe import GIVEN, Recipe
from gradlex.report._decisions import decisions
from gradlex.report._format import NONE, number_of, plain
from gradlex.runs import StoredRun, load_task
from gradlex.tasks import TASKS, Measure

_REASONS = {
    "sole_survivor": "ended with one candidate left",
    "all_failed": "ended at a case that all who were left failed (one of them was picked at random)",
    "exhausted": "used up all cases (one of those left was picked at random)",
    "only_candidate": "had one candidate",
    "random": "were picked at random",
    "best_mean": "were won by the least mean error",
    "best_weighted": "were won by the least weighted error",
    "drawn": "were drawn by the candidates' chances",
    "average": "took the mean of all candidates",
    "expected": "took their mean by exact chances",
    "estimated": "took their mean by estimated chances",
}


def measures_of(run: StoredRun) -> list[Measure]:
    """The task's metrics: those of the result, of a task by name, or the names of what was evaluated so far."""
    if run.result is not None:
        return [Measure(**each) for each in run.result["measures"]]
    if run.recipe.task is None or run.recipe.task in TASKS:
        return list(load_task(run.path).measures)
    evaluated = [record.test for record in run.generations if record.test]
    return [Measure(name) for name in (evaluated[-1] if evaluated else ())]


def shown_value(value: float | None, measure: Measure) -> str:
    """97.22 % or 0.1234"""
    if value is None or not math.isfinite(value):
        return "not finite" if value is not None else NONE
    return f"{100 * value:.2f} %" if measure.fraction else f"{value:.4g}"


def setting_of(recipe: Recipe) -> str:
    """small-cnn on digits"""
    if recipe.model == GIVEN and recipe.dataset == GIVEN:
        return "own model on own data"
    dataset = PureWindowsPath(recipe.dataset).name or recipe.dataset
    names = [
        "own model" if recipe.model == GIVEN else recipe.model,
        "own data" if dataset == GIVEN else dataset,
    ]
    return plain(" on ".join(names))


def method_of(recipe: Recipe) -> str:
    """lexicase, p = 4"""
    name = recipe.to_dict()["selection"] or "selection"
    promotion = "" if recipe.promotion == "winner" else f", {recipe.promotion}"
    return plain(name if recipe.population == 1 else f"{name}{promotion}, p = {recipe.population}")


def state_of(run: StoredRun) -> str:
    """How far the run has come, in a sentence."""
    total, done = run.recipe.generations, len(run.generations)
    if run.result is None:
        return f"Not finished: {done:,} of {number_of(total or 0, 'generation')} done."
    stopped = run.result.get("stopped")
    if stopped:
        return (
            f"Stopped by a callback after {done:,} of {number_of(total or 0, 'generation')}: {plain(stopped)}"
        )
    return f"Finished: all {number_of(done, 'generation')} done."


def selection_words(run: StoredRun) -> list[str]:
    """How selection went, in sentences."""
    found = decisions(run.generations)
    if not found:
        return ["There was one candidate in every generation: plain SGD, and nothing to select."]
    reasons = Counter(each.reason for each in found)
    told = [
        f"{number / len(found):.0%} {_REASONS.get(reason, reason)}"
        for reason, number in reasons.most_common()
    ]
    sentences = [f"Of {number_of(len(found), 'selection')}: {'; '.join(told)}."]
    used = [record.cases_used for record in run.generations if record.cases_used]
    if used:
        sentences.append(f"The decision rested on {median(used):,.0f} cases (median; at most {max(used):,}).")
    untouched = sum(not record.survivors for record in run.generations if record.cases_used)
    if untouched and any(each.steps for each in found):
        sentences.append(f"In {number_of(untouched, 'generation')} no case eliminated anybody.")
    return sentences


def train_command(recipe: Recipe, *, out: str | None = None) -> str | None:
    """`gradlex train` with every field that is not a default; None where objects were passed in from Python."""
    if GIVEN in recipe.to_dict().values():
        return None
    defaults = Recipe().to_dict()
    words = ["gradlex", "train"]
    for name, value in recipe.to_dict().items():
        if value == defaults[name] or value is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [flag] * value
        elif isinstance(value, Mapping):
            words += [flag, *(f"{key}={_value(each)}" for key, each in value.items())]
        else:
            words += [flag, str(value)]
    return shlex.join([*words, *(() if out is None else ("--out", out))])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
