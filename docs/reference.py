"""The API reference: a page for each module of `NAMES`, made while the site is built.

A name is public, and in `NAMES`, if a program that uses gradlex would write or receive it. It is on one page, under the
shortest import. What else a room exports is for the other rooms, and may change without notice. Every class and
function has an example, which tests/docs runs; a registry is shown by what it holds.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAMES: dict[str, tuple[str, ...]] = {
    "gradlex": (
        "train", "Recipe", "Run", "Record", "compare", "paper", "soup", "Cases", "Callback", "Parent", "InputError",
        "RunError",
    ),
    "gradlex.evolve": ("evolve", "Generation"),
    "gradlex.selection": (
        "select_parents", "selection_probabilities", "selection_chances", "Chances", "SELECTIONS", "SelectionInfo",
        "lexicase", "epsilon_lexicase", "batch_lexicase", "downsampled_lexicase", "informed_lexicase", "dalex",
        "plexicase", "tournament", "random", "bind", "Selection", "CaseErrors", "TableErrors", "Choice",
    ),
    "gradlex.tasks": (
        "Task", "Measure", "TASKS", "Classification", "Regression", "MultiLabel", "Segmentation", "Tokens", "Custom",
        "make_task", "infer_task", "ClassTable",
    ),
    "gradlex.data": (
        "load", "Arrays", "DATASETS", "dataset_info", "make_samples", "Samples", "ArraySamples", "DatasetSamples",
        "Normalization", "crop", "flip", "crop_flip", "cutout", "mixup", "cutmix", "Mixed", "parse_augment",
    ),
    "gradlex.models": ("build", "MODELS", "ModelInfo", "count", "efficientnetb0"),
    "gradlex.schedules": (
        "SCHEDULES", "cosine", "linear_to_zero", "step", "one_cycle", "constant", "TAILS", "continued", "held",
        "linear", "cyclic",
    ),
    "gradlex.presets": ("PRESETS", "Preset", "find_preset"),
    "gradlex.population": (
        "split", "Step", "PromotedCandidates", "OuterStep", "MovingAverage", "TailMean", "Recalibration",
    ),
    "gradlex.engine": ("PopulationEngine", "Worker", "Team", "Serial"),
    "gradlex.callbacks": (
        "LiveRun", "EarlyStopping", "LOGGERS", "Logger", "CSV", "TensorBoard", "WandB", "Trackio", "MLflow",
    ),
    "gradlex.runs": (
        "start", "Named", "Given", "Execution", "stored_run", "StoredRun", "load_predictor", "Predictor",
        "load_network", "load_normalization", "load_task", "load_test_samples", "evaluate", "evaluation", "Evaluation",
        "stored_predictions", "Predictions", "export", "replay_recipe",
    ),
    "gradlex.experiments": (
        "METHODS", "Method", "Grid", "comparison_experiment", "paper_experiment", "Experiment", "Resources",
        "list_experiment", "run_experiment", "stored_plan", "Plan", "published", "Published",
    ),
    "gradlex.report": (
        "ExperimentReport", "show_run", "list_runs", "RunLine", "write_run_page", "write_experiment_page", "summarize",
        "Summary", "paired", "Difference", "sparkline",
    ),
    "gradlex.soups": ("Soup", "Mixture", "METHODS", "soup_files", "open_checkpoint", "Checkpoint", "plot_cases"),
    "gradlex.integrations.sklearn": ("GradlexClassifier", "GradlexRegressor"),
    "gradlex.integrations.deap": ("select",),
    "gradlex.integrations.pymoo": ("LexicaseSelection",),
    "gradlex.integrations.pygad": ("parent_selection",),
    "gradlex.integrations.evotorch": ("LexicaseSelection",),
    "gradlex.integrations.gepa": ("LexicaseCandidateSelector",),
    "gradlex.integrations.tpot": ("lexicase_selection",),
    "gradlex.randomness": ("stream",),
    "gradlex.errors": ("MissingDataError", "InterruptedRun"),
}  # fmt: skip
"""What each page shows, in reading order."""

FOLDERS = {
    '"runs/': "Some examples read `runs/mine`, or `runs/a` and others, which `gradlex train --out runs/mine` writes.",
    '"results': "Some examples read `results`, which "
    "`gradlex compare --methods sgd lexicase --generations 1 --seeds 1 --out results` writes.",
}
"""What examples find in the current folder, by how they name it."""

OPTIONAL = "gradlex.integrations."
"""Modules that import libraries which may be missing: their pages are made without importing them."""


def registry(module: str, name: str) -> Mapping[str, Any] | None:
    """The registry of this name; None for a class or function."""
    value = getattr(importlib.import_module(module), name) if name.isupper() else None
    return value if isinstance(value, Mapping) else None


def page(module: str) -> str:
    """The Markdown of one module."""
    source = importlib.util.find_spec(module)
    assert source is not None
    assert source.origin is not None
    text = ast.get_docstring(ast.parse(Path(source.origin).read_text("utf-8"))) or ""
    parts = [f"# {module}", text, *_notes(module)]
    for name in NAMES[module]:
        held = registry(module, name)
        if held is None:
            parts += [f"::: {module}.{name}"]
        else:
            parts += [f"## {name} {{ #{module}.{name} }}", _table(held)]
    return "\n\n".join(parts) + "\n"


def _notes(module: str) -> list[str]:
    if module.startswith(OPTIONAL):
        return []
    values = (getattr(importlib.import_module(module), name) for name in NAMES[module])
    examples = "".join(inspect.getdoc(value) or "" for value in values)
    return [sentence for named, sentence in FOLDERS.items() if named in examples]


def _table(held: Mapping[str, Any]) -> str:
    rows = [f"| `{name}` | {_sentence(value)} |" for name, value in held.items()]
    return "\n".join(["| name | |", "| --- | --- |", *rows])


def _sentence(value: Any) -> str:
    """What an entry says of itself, in a few words."""
    for field in ("description", "sentence", "title", "paper"):
        if isinstance(found := getattr(value, field, None), str):
            return found
    return (inspect.getdoc(value) or "").partition("\n")[0]


def on_config(config: Any) -> Any:
    """Called by mkdocs: the pages come first in the part of the site that is called Reference."""
    (pages,) = (part["Reference"] for part in config.nav if "Reference" in part)
    links = [{module: f"docs/api/{module}.md"} for module in NAMES]
    optional = [link for link in links if next(iter(link)).startswith(OPTIONAL)]
    pages[:0] = [*(link for link in links if link not in optional), {OPTIONAL.rstrip("."): optional}]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs."""
    from mkdocs.structure.files import File  # noqa: PLC0415  # the tests read NAMES without mkdocs

    for module in NAMES:
        files.append(File.generated(config, f"docs/api/{module}.md", content=page(module)))
    return files
