"""An experiment, and the plan it becomes: which runs it consists of, what identifies each of them, and where they are.

ROOT/<name>.json names the runs; ROOT/runs/ holds them, shared by all experiments of the same root.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from gradlex._files import parse_json, write_whole
from gradlex.errors import InputError
from gradlex.experiments._grids import Grid, Scale, comparison, paper_grid
from gradlex.recipe import REVISION, Recipe

RUNS = "runs"
NAMES = ("compare", "table1", "table2", "table3", "table4", "figure2")

_LONGEST_WORD = 60  # bytes of a folder's name, which most file systems limit to 255 bytes

FIGURE2 = "figure2"

Pair: TypeAlias = tuple[str, str]
"""Two methods to compare: the first is expected to be better than the second."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is to be run: a grid under a name, in a folder.

    Examples:
        >>> from gradlex.experiments import comparison_experiment
        >>> experiment = comparison_experiment("digits", "small-cnn", methods=["sgd", "lexicase"], seeds=2)
        >>> experiment.name, experiment.grid.methods
        ('compare', ('sgd', 'lexicase'))
        >>> len(experiment.grid.cells())
        4
    """

    name: str
    """One of NAMES."""
    scale: str
    """smoke, small or paper; own for one's own data."""
    grid: Grid
    root: Path
    """The folder for the runs and the report."""
    command: str = ""
    """The command that reproduces it, as its report shows it."""
    layers: tuple[str, ...] = ()
    """Of figure2: the layers to compare. Empty: the last two stages."""
    title: str = ""
    """What it asks, as the heading of its report."""
    pairs: tuple[Pair, ...] = ()
    """Comparisons that are declared before the runs, the primary one first: (better, than)."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning for the experiment."""
        for pair in self.pairs:
            for method in pair:
                if method not in self.grid.methods:
                    raise InputError(
                        f"the pair {':'.join(pair)} names {method}, which is not among the methods "
                        f"{', '.join(self.grid.methods)}."
                    )
        if self.name != FIGURE2:
            if self.layers:
                raise InputError(f"layers belong to figure2, not to {self.name}: leave them out.")
        elif len(self.grid.datasets) * len(self.grid.models) > 1:
            raise InputError("figure2 compares methods on one dataset and one model: name one of each.")


def comparison_experiment(
    dataset: str,
    model: str,
    *,
    out: Path | None = None,
    command: str = "",
    title: str = "",
    pairs: Sequence[Pair | str] = (),
    **changes: Any,
) -> Experiment:
    """One's own comparison; `changes` are those of `Grid.changed`. Without `out`: a folder under runs/.

    Examples:
        >>> from pathlib import Path
        >>> from gradlex.experiments import comparison_experiment, list_experiment
        >>> experiment = comparison_experiment("digits", "mlp", methods=["sgd", "lexicase"], seeds=1, out=Path("mine"))
        >>> [(cell.method, state) for cell, state in list_experiment(experiment)]
        [('sgd', 'to do'), ('lexicase', 'to do')]
    """
    grid = comparison(dataset, model).changed(**changes)
    words = ("compare", *map(folder_word, (Path(dataset).stem, model)))
    return Experiment(
        name="compare",
        scale="own",
        grid=grid,
        root=out or Path("runs") / "-".join(words),
        command=command,
        title=title,
        pairs=tuple(map(_pair, pairs)),
    )


def _pair(given: Pair | str) -> Pair:
    """Two methods, as a tuple or as A:B."""
    words = given.split(":") if isinstance(given, str) else tuple(given)
    if len(words) != 2 or words[0] == words[1]:
        raise InputError(f"a pair must be two methods, such as lexicase:sgd, got {given!r}.")
    return words[0], words[1]


def paper_experiment(
    name: str,
    scale: Scale = "smoke",
    *,
    out: Path | None = None,
    command: str = "",
    layers: Sequence[str] = (),
    **changes: Any,
) -> Experiment:
    """One of the paper's experiments; `changes` are those of `Grid.changed`. Without `out`: a folder under runs/.

    Examples:
        >>> from gradlex.experiments import paper_experiment
        >>> experiment = paper_experiment("table2", "paper", seeds=1)
        >>> experiment.grid.methods
        ('sgd', 'random', 'tournament', 'lexicase')
        >>> experiment.grid.populations
        (4,)
    """
    return Experiment(
        name=name,
        scale=scale,
        grid=paper_grid(name, scale).changed(**changes),
        root=out or Path("runs") / f"paper-{scale}",
        command=command,
        layers=tuple(layers),
    )


def folder_word(word: str) -> str:
    """A word as part of a folder's name; a long one is cut, and told apart by a hash."""
    plain = re.sub(r"[^\w.]+", "-", word)
    if len(plain.encode(errors="surrogateescape")) <= _LONGEST_WORD:
        return plain
    return f"{plain[:12]}-{hashlib.sha256(word.encode(errors='surrogateescape')).hexdigest()[:12]}"


NEUTRAL: Mapping[str, Any] = {
    "target": None,
    "model": "small-cnn",
    "width": 1.0,
    "task": "classification",
    "selection": "lexicase",
    "population": None,
    "momentum": None,
    "generations": None,
    "optimizer": "sgd",
    "optimizer_options": {},
    "lr": 0.1,
    "schedule": "cosine",
    "weight_decay": 1e-4,
    "batch_size": None,
    "augment": None,
    "train_size": None,
    "test_fraction": None,
    "image_size": None,
    "promotion": "winner",
    "promotion_cases": None,
    "recalibrate": 0,
    "recalibrate_final": 0,
    "outer_lr": 1.0,
    "outer_momentum": 0.0,
    "outer_nesterov": False,
    "ema": None,
    "seed": 0,
    "threads": "auto",
    "precision": "auto",
    "compile": False,
    "compile_options": {},
    "fold_norm": False,
    "deterministic": False,
    "init_from": None,
    "branch_at": 0.0,
    "tail": "continue",
    "tail_options": {},
    "tail_mean": False,
    "steps_per_generation": None,
    "parts": "disjoint",
    "vary": {},
    "inherit_variation": False,
    "timeline": {},
    "cases": "clean",
    "held_out": None,
    "schedule_options": {},
    "parameter_groups": "one",
    "clip_norm": None,
    "accumulate": 1,
    "freeze": None,
    "validation_fraction": None,
    "patience": None,
    "keep": "last",
    # Options of a task or a selection, which were fields in 0.1.0; any other is neutral where it is None.
    "case_error": "correct",
    "on_all_fail": None,
    "tournament_size": None,
    "epsilon": None,
    "epsilon_mode": None,
    "case_batch": None,
    "share": None,
    "refresh": None,
    "sigma": None,
    "alpha": None,
    "promotion_depth": None,
}
"""What a run's identity leaves out: the value a field has in a run from before the field existed; for the fields of
0.1.0, that version's defaults. Frozen: a new field is added with what runs without it did, and no value here ever
changes, whatever the recipe's defaults become."""

_OPTIONS = ("selection_options", "task_options")
_RENAMED = {"depth": "promotion_depth"}


def run_name(recipe: Recipe, fingerprint: str, revision: int = REVISION) -> str:
    """The name of a run's folder: a few words for people, and 12 digits of the hash that identifies the run.

    A run is identified by its resolved recipe, the fingerprint of its data rather than their path, and the revision of
    gradlex's arithmetic.
    """
    identity = {**_deciding(recipe), "dataset": fingerprint}
    if recipe.init_from is not None:
        identity["init_from"] = _file_digest(Path(recipe.init_from))
    if revision > 1:
        identity["revision"] = revision
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    plain = recipe.to_dict()
    promotion = () if recipe.promotion == "winner" else (recipe.promotion,)
    words = (
        recipe.model,
        str(plain["selection"] or NEUTRAL["selection"]),
        *promotion,
        f"seed{recipe.seed}",
        digest[:12],
    )
    return "-".join(
        re.sub(r"[^A-Za-z0-9.]+", "-", word)[:_LONGEST_WORD] for word in words
    )  # the hash tells them apart


def _deciding(recipe: Recipe) -> dict[str, Any]:
    """What of the recipe is not neutral, options that were fields in 0.1.0 under the names they had there."""
    found = recipe.to_dict()
    for owner in _OPTIONS:
        for option, value in found.pop(owner).items():
            name = _RENAMED.get(option, option)
            found[name if name in NEUTRAL and name not in found else f"{owner}.{option}"] = value
    return {name: value for name, value in found.items() if not _is_neutral(name, value)}


def _is_neutral(name: str, value: Any) -> bool:
    if name in NEUTRAL:
        return value is None or bool(value == NEUTRAL[name])
    return "." in name and value is None


def _file_digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"init_from {path} cannot be read: {error}.") from error


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One run of an experiment: the method it stands for, its folder's name under ROOT/runs, and its recipe."""

    method: str
    run: str
    recipe: Recipe
    failure: str | None = None
    """Why the run ended without a result, when it was last tried."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One experiment of a root.

    Examples:
        >>> from pathlib import Path
        >>> from gradlex.experiments import stored_plan
        >>> from gradlex.runs import stored_run
        >>> plan = stored_plan(Path("results/compare.json"))
        >>> [len(stored_run(plan.path(planned)).generations) for planned in plan.runs]
        [1, 5]
    """

    root: Path
    name: str
    """One of NAMES."""
    scale: str
    """smoke, small or paper; own for one's own data."""
    command: str
    """The command that reproduces it."""
    runs: tuple[Planned, ...]
    layers: tuple[str, ...] = ()
    """Of figure2: the layers that are compared."""
    title: str = ""
    """What it asks."""
    pairs: tuple[Pair, ...] = ()
    """Comparisons that were declared, the primary one first."""

    def path(self, planned: Planned) -> Path:
        """The folder of one run."""
        return self.root / RUNS / planned.run

    def with_failures(self, reasons: Mapping[str, str]) -> Plan:
        """The plan with what failed, by the runs' names."""
        return replace(
            self, runs=tuple(replace(planned, failure=reasons.get(planned.run)) for planned in self.runs)
        )

    @property
    def file(self) -> Path:
        """ROOT/<name>.json."""
        return self.root / f"{self.name}.json"

    def earlier_failures(self) -> dict[str, str]:
        """Why runs of this plan failed when they were last tried, by their names, as far as its file knows."""
        earlier = stored_plan(self.file).runs if self.file.exists() else ()
        names = {planned.run for planned in self.runs}
        return {each.run: each.failure for each in earlier if each.failure is not None and each.run in names}

    def save(self) -> None:
        """Write the plan's file; several commands may write the same plan at the same time."""
        self.root.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {
            "experiment": self.name,
            "scale": self.scale,
            "command": self.command,
            **({"layers": list(self.layers)} if self.layers else {}),
            **({"title": self.title} if self.title else {}),
            **({"pairs": [list(pair) for pair in self.pairs]} if self.pairs else {}),
            "runs": [_plain(planned) for planned in self.runs],
        }
        write_whole(self.file, (json.dumps(content, indent=2) + "\n").encode(), shared=True)


def _plain(planned: Planned) -> dict[str, Any]:
    failure = {} if planned.failure is None else {"failure": planned.failure}
    # The whole recipe, not what differs from its defaults: those may change before the plan is read again.
    return {"method": planned.method, "run": planned.run, "recipe": planned.recipe.to_dict(), **failure}


def stored_plan(path: Path) -> Plan:
    """The plan that ROOT/<name>.json holds.

    Examples:
        >>> from pathlib import Path
        >>> from gradlex.experiments import stored_plan
        >>> plan = stored_plan(Path("results/compare.json"))
        >>> [planned.method for planned in plan.runs]
        ['sgd', 'lexicase']
    """
    try:
        content = parse_json(path.read_bytes())
        return Plan(
            root=path.parent,
            name=content["experiment"],
            scale=content["scale"],
            command=content["command"],
            runs=tuple(
                Planned(**{**run, "recipe": _stored_recipe(run["recipe"])}) for run in content["runs"]
            ),
            layers=tuple(content.get("layers", ())),
            title=content.get("title", ""),
            pairs=tuple(_pair(pair) for pair in content.get("pairs", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is not the plan of an experiment: {error!r}.") from error


def _stored_recipe(plain: Mapping[str, Any]) -> Recipe:
    """A plan of 0.1.0 leaves out what was at that version's defaults."""
    neutral = {each.name: NEUTRAL[each.name] for each in fields(Recipe) if each.name in NEUTRAL}
    return Recipe.from_dict({**neutral, **plain})


def stored_plans(root: Path) -> list[Plan]:
    """All plans of a root and of the folders in it, in the order of their names; refused where there is none."""
    try:
        folders = [root, *sorted(path for path in root.glob("*/") if path.name != RUNS)]
        paths = [path for folder in folders for name in NAMES if (path := folder / f"{name}.json").exists()]
    except OSError as error:  # a name that no file system takes
        raise InputError(f"the folder {root} cannot be read: {error}.") from error
    if not paths:
        raise InputError(
            f"{root} holds no experiment: make one with gradlex paper or gradlex compare --out {root}."
        )
    return [stored_plan(path) for path in paths]
