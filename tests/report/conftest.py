"""Experiments whose records are written by hand: no network is trained for a report's tests."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gradlex.experiments import METHODS, Plan, Planned
from gradlex.recipe import REVISION, Recipe

SAMPLES = 5_000

BASE = Recipe(
    dataset="images/cifar10.npz",
    model="resnet20",
    population=4,
    momentum="reset",
    generations=40,
    lr=0.05,
    batch_size=32,
    augment="crop4,flip",
    train_size=SAMPLES,
    threads=1,
    precision="float32",
)


def write_run(folder: Path, recipe: Recipe, accuracy: float, *, done: int | None = None) -> None:
    """A run of gradlex 0.1.0 that reaches `accuracy` (a fraction) along a curve.

    With `done` it stopped after that many generations.
    """
    folder.mkdir(parents=True)
    generations = recipe.require("generations")
    population = recipe.require("population")
    data = {"fingerprint": "0123456789abcdef" * 4, "train_samples": SAMPLES, "test_samples": 10_000}
    _write(
        folder / "recipe.json",
        {"gradlex": "0.1.0", "recipe": recipe.to_dict(), "data": {**data, "num_classes": 10}},
    )
    versions = {"gradlex": "0.1.0", "python": "3.11.7", "torch": "2.9.0", "numpy": "2.3.0"}
    environment = {**versions, "processor": "A processor", "accelerator": None, "threads": 1}
    _write(folder / "environment.json", {**environment, "precision": "float32"})
    cases = 0 if recipe.selection in ("sgd", "random") else 1_250
    lines, evaluations = [], []
    for generation in range(generations if done is None else done):
        line = {"generation": generation, "lr": recipe.lr_at(generation), "losses": [0.5] * population}
        line |= {"selected": 0, "reason": "sole_survivor", "cases_used": 9, "cases_evaluated": cases}
        lines.append({**line, "survivors": [], "train_seconds": 1.5, "select_seconds": 0.25})
        if (generation + 1) % max(1, generations // 20) == 0:
            part = (generation + 1) / generations
            reached = accuracy * (1 - 0.4 * math.exp(-6 * part) - 0.12 * (1 - part))
            evaluations.append({"generation": generation, "test_accuracy": reached, "test_loss": 1.0})
    if done is None:
        final = {"test_accuracy": accuracy, "test_loss": 1.0, "train_accuracy": 0.96, "train_loss": 0.1}
        evaluations[-1] = {"generation": generations - 1, **final}
    for name, found in (("generations", lines), ("evaluations", evaluations)):
        text = "".join(json.dumps(line) + "\n" for line in found)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    if done is None:
        _write(
            folder / "result.json",
            {
                **final,
                "generations": generations,
                "samples_trained": generations * SAMPLES,
                "cases_evaluated": cases * generations,
                "parameters": 269_722,
                "seconds": 1.75 * generations,
                "peak_memory": 400 * 2**20,
                "data": data,
                "gradlex": "0.1.0",
            },
        )


def _write(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


Accuracies = Mapping[str, Sequence[float | None]]
"""Per cent by seed, for `sgd` or `lexicase population=2`; None: planned, not started."""


@pytest.fixture(scope="session")
def make_experiment() -> Callable[..., Plan]:
    """Makes an experiment in a folder from the test accuracies of its runs, seed by seed."""

    def make(
        root: Path,
        name: str,
        accuracies: Accuracies,
        *,
        unfinished: Sequence[str] = (),
        failures: Mapping[str, str] | None = None,
        epochs: int = 40,
        **shared: object,
    ) -> Plan:
        runs = []
        for arm, values in accuracies.items():
            method, *told = arm.split()
            changes = dict(word.split("=") for word in told)
            population = int(changes.get("population", 4))
            is_sgd = METHODS[method].is_sgd
            once = method == "sgd" or METHODS[method].equal
            named = {key: value for key, value in changes.items() if key in ("dataset", "model")}
            given = {
                name: value for name, value in shared.items() if name != "selection_options" or not is_sgd
            }
            recipe = BASE.replace(
                **{
                    **METHODS[method].changes,
                    "generations": epochs * (1 if once else population + 1),
                    "population": 1 if is_sgd else population,
                    "momentum": "inherit" if is_sgd else changes.get("momentum", "reset"),
                    **given,
                    **named,
                }
            )
            for seed, value in enumerate(values):
                run = f"{name}-{arm.replace(' ', '-').replace('=', '')}-seed{seed}"
                own = recipe.replace(seed=seed)
                runs.append(Planned(method=method, run=run, recipe=own, failure=(failures or {}).get(run)))
                if value is not None:
                    write_run(root / "runs" / run, own, value / 100)
        for run in unfinished:
            method = run.split("-seed")[0]
            seed = int(run.split("-seed")[1])
            recipe = BASE.replace(**METHODS[method].changes, generations=200, seed=seed, **shared)
            runs.append(Planned(method=method, run=f"{name}-{run}", recipe=recipe))
            write_run(root / "runs" / f"{name}-{run}", recipe, 0.5, done=120)
        command = f"gradlex paper {name} --scale small --datasets /data/cifar10.npz --out results"
        plan = Plan(root=root, name=name, scale="small", command=command, runs=tuple(runs))
        plan.save()
        return plan

    return make


@pytest.fixture
def revised() -> Callable[..., Plan]:
    """Moves a plan and its runs into another folder, as runs of the present revision."""

    def make(plan: Plan, root: Path, title: str = "", pairs: tuple[tuple[str, str], ...] = ()) -> Plan:
        for planned in plan.runs:
            run = root / "runs" / planned.run
            run.parent.mkdir(parents=True, exist_ok=True)
            if not plan.path(planned).exists():
                continue
            plan.path(planned).rename(run)
            kept = json.loads((run / "recipe.json").read_text(encoding="utf-8"))
            _write(run / "recipe.json", {**kept, "revision": REVISION})
        plan.file.unlink()
        moved = replace(plan, root=root, title=title, pairs=pairs)
        moved.save()
        return moved

    return make


@pytest.fixture
def experiment(make_experiment: Callable[..., Plan], tmp_path: Path) -> Callable[..., Plan]:
    """The same under tmp_path/results."""
    return functools.partial(make_experiment, tmp_path / "results")


TABLE2: Accuracies = {
    "sgd": [68.11, 67.42, 68.30],
    "sgd-matched": [71.02, 70.35, 71.40],
    "sgd-matched-5e-4": [72.62, 72.01, 72.44],
    "random": [69.80, 69.95, 69.13],
    "tournament": [69.55, 70.02, 69.90],
    "lexicase": [70.31, 69.88, 70.62],
    "average": [73.10, 72.66, 73.35],
    "expected": [71.95, 71.60, 72.31],
    "expected-outer-0.5": [73.00, 72.90, 73.71],
}


@pytest.fixture
def table2(experiment: Callable[..., Plan]) -> Plan:
    """All methods of the first result with made-up numbers, one run unfinished and one not started."""
    return experiment(
        "table2", {**TABLE2, "average-outer-0.5": [72.70, None]}, unfinished=["average-outer-0.5-seed2"]
    )
