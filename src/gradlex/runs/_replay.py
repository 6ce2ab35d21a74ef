"""Replay: the settings that a run with variation found, as a schedule that SGD alone can follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradlex.callbacks import Record
from gradlex.errors import InputError
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._stored_run import stored_run


def replay_recipe(path: Path | str) -> Recipe:
    """SGD with the learning rate, weight decay and augmentation that each parent of a run was trained with.

    A parent that is a mean of candidates counts as the one with the largest weight. What the final model is, the last
    parent or a mean, stays as it was.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> from gradlex.runs import replay_recipe
        >>> data = torch.randn(40, 4), torch.arange(40) % 2
        >>> recipe = gradlex.Recipe(generations=2, batch_size=8, population=2, vary={"lr": [0.5, 2]})
        >>> run = gradlex.train(torch.nn.Linear(4, 2), data, recipe, out="varied")
        >>> replayed = replay_recipe("varied")
        >>> replayed.selection, len(replayed.timeline["lr"])  # a learning rate for each generation
        ('sgd', 2)
    """
    run = stored_run(path)
    recipe = run.recipe
    if not recipe.vary:
        raise InputError(f"{path} has no settings to replay: its candidates did not vary (--vary).")
    if run.result is None:
        raise InputError(f"{path} is not finished: resume it first.")
    found = [_setting(record, recipe) for record in run.generations]
    names = ("lr", *(key for key in recipe.vary if key != "lr"))
    return Recipe(
        **{
            name: getattr(recipe, name)
            for name in (
                *("dataset", "train_size", "test_fraction", "validation_fraction", "image_size", "augment"),
                *("task", "task_options"),
                *(
                    "model",
                    "width",
                    "freeze",
                    "init_from",
                    "batch_size",
                    "steps_per_generation",
                    "generations",
                ),
                *(
                    "optimizer",
                    "optimizer_options",
                    "lr",
                    "schedule",
                    "schedule_options",
                    "weight_decay",
                    "parameter_groups",
                    "clip_norm",
                    "accumulate",
                    "branch_at",
                    "tail_mean",
                ),
                *(
                    "recalibrate_final",
                    "ema",
                    "seed",
                    "threads",
                    "precision",
                    "compile",
                    "compile_options",
                    "deterministic",
                ),
            )
        },
        selection="sgd",
        timeline={name: [setting[name] for setting in found] for name in names},
    )


def _setting(record: Record, recipe: Recipe) -> dict[str, Any]:
    own = record.settings[record.selected] if record.settings else {}
    return {
        "lr": record.lr * own.get("lr", 1.0),
        "weight_decay": own.get("weight_decay", recipe.weight_decay),
        "augment": own.get("augment", None if recipe.augment == GIVEN else recipe.augment),
    }
