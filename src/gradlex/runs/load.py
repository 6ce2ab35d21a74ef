"""A finished run, read back from its folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradlex.data import Normalization, normalized
from gradlex.errors import InputError
from gradlex.models import build
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs.devices import find_device
from gradlex.runs.folder import RECORDS, RUN, WEIGHTS, RunFolder
from gradlex.runs.probe import lay_channels_last
from gradlex.runs.problem import build_network
from gradlex.runs.run import Run
from gradlex.runs.weights import put_weights, read_weights
from gradlex.tasks import make_task


def load(
    path: Path | str,
    model: nn.Module | None = None,
    *,
    task: Any = None,
    device: str | torch.device | None = "cpu",
) -> Run:
    """The finished run in a folder: its network with the final weights, its history and its result.

    Args:
        path: The run folder.
        model: A module like the one that was trained, if it came from Python; it is copied.
        task: The task or loss, if it was an object from Python.
        device: Where the network is to lie.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> run = gradlex.load("runs/mine")  # doctest: +SKIP
        >>> run.predict(torch.rand(5, 1, 8, 8))  # doctest: +SKIP
    """
    folder = RunFolder(path)
    described, result = folder.description(), folder.result()
    recipe, data = Recipe.from_dict(described.recipe), described.data
    if recipe.model == GIVEN and model is None:
        raise InputError(
            f"the run in {path} trained a module from Python, which isn't stored: give one like it, as in "
            f"gradlex.load({str(path)!r}, model)."
        )
    if task is None and recipe.task == GIVEN:
        raise InputError(f"the task of {path} was an object from Python, which isn't stored: give it as task=.")
    try:
        if model is not None:
            network = build(model, sample=(), outputs=0)
        else:
            network = build_network(recipe.model, data["input_shape"], described.model["outputs"], recipe.seed)
        scales = data["normalization"]
        network = normalized(network, None if scales is None else Normalization(**scales))
        if data["channels_last"]:
            lay_channels_last(network)
        found = make_task(task if task is not None else recipe.task, learned=data["task"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder.path / RUN} is damaged: {error!r}. Restore the file.") from error
    put_weights(network, read_weights(folder.path / WEIGHTS), folder.path / WEIGHTS)
    metrics = {
        part: {name: math.nan if value is None else value for name, value in own.items()}
        for part, own in result.metrics.items()
    }
    history = folder.records()
    if len(history) != result.generations:
        lines = f"{len(history)} of {result.generations} lines"
        raise InputError(f"{folder.path / RECORDS} is damaged: it has {lines}. Restore the file.")
    return Run(
        model=network.eval().to(find_device(device)),
        recipe=recipe,
        history=history,
        result={**result.model_dump(), "metrics": metrics},
        task=found,
        data=data,
        environment=described.environment,
        path=folder.path,
    )
