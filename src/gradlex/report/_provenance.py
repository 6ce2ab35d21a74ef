"""Where results come from: how the runs were trained, on which data, on which machine, by which version."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from gradlex.errors import InputError
from gradlex.experiments import OWN_FIELDS
from gradlex.recipe import Recipe
from gradlex.report._evidence import Arm, Evidence
from gradlex.report._format import count, listed, number_of, plain
from gradlex.report._outcome import Outcome
from gradlex.report._table import markdown_text
from gradlex.runs import different_beginning

_REVISIONS = {1: ("gradlex 0.1.0", "short last batches")}
"""By revision: who made such runs, and what has changed since."""

_SATURATED = 99.0  # per cent of its training samples that SGD fits in the paper's regime

_SHOWN = {
    "batch_size": "batch size",
    "lr": "learning rate",
    "weight_decay": "weight decay",
    "augment": "augmentation",
    "precision": "precision",
}
_PAPER = {"on_all_fail": "random", "task": "classification"}
"""What the paper does where the recipe's default leaves it open."""

_ELSEWHERE = {
    *("dataset", "model", "width", "population", "momentum", "generations", "train_size"),
    *("seed", "threads"),
}
"""Shown by the tables themselves, or irrelevant to their numbers."""

_DIGITS = 12  # of a fingerprint: enough to tell data apart
_VERSIONS = {"gradlex": "gradlex", "python": "Python", "torch": "PyTorch", "numpy": "NumPy"}


def setup_notes(evidence: Evidence) -> tuple[str, ...]:
    """One sentence for each way of training; datasets and models that share it share the sentence.

    Runs of an earlier revision of gradlex are marked.
    """
    settings: dict[str, list[str]] = {}
    for setting in evidence.settings:
        facts = _facts(list(evidence.on(setting).values()))
        settings.setdefault(facts, []).append(str(setting))
    notes = [f"gradlex, {listed(names)}: {facts}" for facts, names in settings.items()]
    shared = dict.fromkeys(
        note for setting in evidence.settings for note in _shared(evidence.on(setting).values())
    )
    return (*notes, *shared, *revision_notes(evidence.arms))


def _shared(arms: Collection[Arm]) -> Iterator[str]:
    """Which methods with the same seed are one and the same run until they branch."""
    plain_sgd = [arm for arm in arms if arm.recipe.population == 1 and not arm.recipe.branch]
    for base in plain_sgd:
        branches: dict[int, list[str]] = {}
        for arm in arms:
            if arm.recipe.branch and not different_beginning(arm.recipe, base.recipe):
                branches.setdefault(arm.recipe.branch, []).append(arm.title)
        for branch, titles in branches.items():
            yield (
                f"Runs with the same seed share their first {number_of(branch, 'generation')}, plain SGD: "
                f"{listed([base.title, *titles])}."
            )


def revision_notes(arms: Sequence[Arm]) -> list[str]:
    """What to know about runs of an earlier revision, wherever they are shown."""
    runs = [run for arm in arms for run in arm.runs.values()]
    trained = [arm.train_summary for arm in arms if arm.method == "sgd" and _shows_saturation(arm)]
    unsaturated = any(summary is not None and summary.mean < _SATURATED for summary in trained)
    notes = []
    for revision, (maker, change) in _REVISIONS.items():
        number = sum(run.revision == revision for run in runs)
        if number:
            which = "These runs" if number == len(runs) else f"{number} of {len(runs)} runs"
            saturation = ", SGD not saturated" if unsaturated else ""
            notes.append(f"{which} were made by {maker}: {change}{saturation}.")
    return notes


def _shows_saturation(arm: Arm) -> bool:
    return arm.measure.fraction and arm.measure.higher_is_better


def _facts(arms: list[Arm]) -> str:
    runs = [run for arm in arms for run in arm.runs.values()]
    train = sorted({run.train_samples for run in runs})
    test = sorted({run.test_samples for run in runs})
    recipes = [run.recipe for run in runs]
    shown = [f"{words} {_values(recipes, name)}" for name, words in _SHOWN.items()]
    populations = [recipe for recipe in recipes if recipe.selection != "sgd"]
    if populations:
        sizes, momenta = _values(populations, "population"), _values(populations, "momentum")
        shown = [f"p = {sizes}", f"momentum {momenta}", *shown]
    return (
        f"{_counts(train)} training and {_counts(test)} test samples; {_generations(arms)}; "
        f"{', '.join([*shown, *_unusual(arms)])}."
    )


def _unusual(arms: list[Arm]) -> list[str]:
    """Every other field that is neither a method's own nor the paper's, and who has it where not all do."""
    usual = {**_fields(Recipe()), **_PAPER}
    names = dict.fromkeys(name for arm in arms for name in _fields(arm.recipe))
    told = []
    for name in [name for name in names if name not in {*OWN_FIELDS, *_SHOWN, *_ELSEWHERE}]:
        values = {arm.title: value for arm in arms if (value := _value(arm.recipe, name)) is not None}
        for shown in dict.fromkeys(_shown(value) for value in values.values() if value != usual.get(name)):
            titles = [title for title, value in values.items() if _shown(value) == shown]
            others = [title for title in values if title not in titles]
            word, named = ("not for", others) if len(others) < len(titles) else ("for", titles)
            which = f" ({word} {listed(named)})" if others else ""
            told.append(f"{name} {shown}{which}")
    return told


def _fields(recipe: Recipe) -> dict[str, Any]:
    """A recipe's fields, with the options of its selection among them."""
    fields = recipe.to_dict()
    options = fields.pop("selection_options")
    return {**fields, **options}


def _value(recipe: Recipe, name: str) -> Any:
    value = _fields(recipe).get(name)
    if name == "tournament_size" and value == recipe.population:  # the paper's: all candidates enter
        return None
    return value


def _generations(arms: list[Arm]) -> str:
    titles: dict[int, list[str]] = {}
    for arm in arms:
        titles.setdefault(arm.recipe.require("generations"), []).append(arm.title)
    if len(titles) == 1:
        return number_of(next(iter(titles)), "generation")
    most = max(titles, key=lambda number: len(titles[number]))
    if len(titles[most]) > 3:  # a longer list says less than this
        titles[most] = ["the others"]
        titles[most] = titles.pop(most)  # last
    return "; ".join(f"{count(number)} generations for {listed(names)}" for number, names in titles.items())


def _values(recipes: list[Recipe], name: str) -> str:
    """All values that the recipes have, each once."""
    found = list(
        dict.fromkeys(_shown(value) for recipe in recipes if (value := _value(recipe, name)) is not None)
    )
    if not found:
        return "none"
    if all(text.isdecimal() for text in found):
        found.sort(key=int)
    return listed(found)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={each}" for key, each in value.items()) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _counts(values: Sequence[int]) -> str:
    return listed([count(value) for value in values])


# The section of a page.


def provenance(evidences: Sequence[Evidence]) -> str:
    """Commands, data, seeds, machines and versions of everything on a page."""
    arms = [arm for evidence in evidences for arm in evidence.arms]
    runs = {run.path: (str(arm.setting), run) for arm in arms for run in arm.runs.values()}
    found = list(runs.values())
    commands = list(dict.fromkeys(shown_command(evidence.plan.command) for evidence in evidences))
    fence = "```"
    while any(fence in command for command in commands):
        fence += "`"
    seeds = sorted({run.recipe.seed for _, run in found})
    with_seeds = f", seed{'s' if len(seeds) > 1 else ''} {listed(seeds)}" if seeds else ""
    facts = (*_data(found), *_machines([run for _, run in found]), *revision_notes(arms))
    lines = [
        fence,
        *commands,
        fence,
        "",
        f"Finished: {number_of(len(found), 'run')}{with_seeds}.",
        "",
        *(f"- {markdown_text(fact)}" for fact in facts),
    ]
    return "\n".join(lines).rstrip() + "\n"


def shown_command(command: str) -> str:
    """The command without the folders of the machine it ran on: a file elsewhere is shown by its name."""
    try:
        words = shlex.split(command)
    except ValueError:  # no command line: a quotation is open
        return plain(command)
    return plain(shlex.join(map(_without_folder, words)))


def _without_folder(word: str) -> str:
    option, equals, value = word.rpartition("=")  # --dataset=FILE
    return f"{option}{equals}{PureWindowsPath(value).name}" if _elsewhere(value) else word


def _elsewhere(word: str) -> bool:
    return (
        PurePosixPath(word).is_absolute()
        or PureWindowsPath(word).is_absolute()
        or ".." in PureWindowsPath(word).parts
    )


def _data(found: Sequence[tuple[str, Outcome]]) -> list[str]:
    facts = Counter(
        f"{setting}: {count(run.train_samples)} training and {count(run.test_samples)} test samples "
        f"(data {run.fingerprint[:_DIGITS]})"
        for setting, run in found
    )
    return [f"{fact}: {number_of(number, 'run')}." for fact, number in facts.items()]


def _machines(runs: Sequence[Outcome]) -> list[str]:
    facts = Counter(_machine(run) for run in runs if (run.path / "environment.json").exists())
    return [f"{fact}: {number_of(number, 'run')}." for fact, number in facts.items()]


def _machine(run: Outcome) -> str:
    path = run.path / "environment.json"
    try:
        environment = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}. Bring it back, or remove it.") from error
    if not isinstance(environment, dict):
        raise InputError(f"{path} is not the environment of a run. Bring it back, or remove it.")
    device = environment.get("accelerator") or environment.get("processor") or "unknown CPU"
    threads = environment.get("threads")
    versions = listed([f"{title} {environment.get(name, 'unknown')}" for name, title in _VERSIONS.items()])
    return (
        f"{device}, {threads} thread{'' if threads == 1 else 's'} per worker, {environment.get('precision')}, "
        f"{versions}"
    )
