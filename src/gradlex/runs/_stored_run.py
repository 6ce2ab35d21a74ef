"""A run read back from its folder: its records and result, its network, its metrics on any data."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from gradlex._checks import check_fields
from gradlex._files import parse_json
from gradlex.callbacks import Record, metrics_from, records_from
from gradlex.data import Arrays, ArraySamples, Normalization, TableEncoding, is_folder, is_table, load
from gradlex.engine import Worker
from gradlex.errors import InputError
from gradlex.models import without_weights
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs._execution import find_device
from gradlex.runs._folder import RECORDS, RunFolder
from gradlex.runs._probe import takes_channels_last
from gradlex.runs._resume import dataset_of, stored_recipe, stored_revision
from gradlex.runs._source import array_samples, build_model
from gradlex.runs._weights import load_weights
from gradlex.tasks import Classification, Task, make_task

_DATA = ("fingerprint", "train_samples", "test_samples")
_RESULT = ("generations", "samples_trained", "cases_evaluated", "seconds")


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """What recipe.json, the records and result.json of a run hold.

    Examples:
        >>> from gradlex.runs import stored_run
        >>> run = stored_run("runs/mine")
        >>> run.data["train_samples"], run.data["test_samples"]
        (1438, 359)
        >>> run.result is not None  # finished
        True
    """

    path: Path
    recipe: Recipe
    data: dict[str, Any]
    """Of the data: fingerprint, train_samples, test_samples, ..."""
    generations: list[Record]
    result: dict[str, Any] | None
    """None while the run is not finished."""
    revision: int
    """1 for runs of gradlex 0.1.0, which trained on other batches."""


def stored_run(path: Path | str) -> StoredRun:
    """Read a run folder; refused where there is none, or where what it holds is no run.

    Examples:
        >>> from gradlex.runs import stored_run
        >>> run = stored_run("runs/mine")
        >>> run.recipe.dataset, len(run.generations)
        ('digits', 1)
        >>> sorted(run.result["metrics"])
        ['test', 'train']
    """
    path = Path(path)
    folder = RunFolder(path)
    recipe, data = stored_recipe(folder)
    result = stored_result(folder) if (path / "result.json").exists() else None
    try:
        lines = {name: _lines(path / name, whole=result is not None) for name in RECORDS}
    except OSError as error:
        raise InputError(f"the records of {path} cannot be read: {error}.") from error
    records = parse_records(lines, path)
    for kind, found, needed in (("data", data, _DATA), ("result", result, _RESULT)):
        missing = [name for name in needed if found is not None and found.get(name) is None]
        if missing:
            raise InputError(f"{path} is damaged: its {kind} has no {', '.join(missing)}. Restore the file.")
    if result is not None and len(records) != result["generations"]:
        raise InputError(
            f"{path} is damaged: it has the records of {len(records)} of {result['generations']} generations. Restore "
            "generations.jsonl."
        )
    return StoredRun(
        path=path,
        recipe=recipe,
        data=data,
        generations=records,
        result=result,
        revision=stored_revision(folder),
    )


def parse_records(lines: Mapping[str, Sequence[bytes]], path: Path) -> list[Record]:
    """The records from the lines of a run's two files of records; refused where they are none."""
    try:
        found = records_from(*([parse_json(line) for line in lines[name]] for name in RECORDS))
        for number, record in enumerate(found):
            check_fields(replace(record, metrics={}))  # they may be NaN, which was null
            numbers = (
                *(loss for loss in record.losses if loss is not None),
                *record.weights,
                *(place for used, left in record.survivors for place in (used, *left)),
                *(record.deciding or ()),
            )
            if record.generation != number or not all(isinstance(n, int | float) for n in numbers):
                raise ValueError(f"line {number + 1} is no record of generation {number}")  # noqa: TRY301
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"the records of {path} cannot be read: {error!r}.") from error
    return found


def stored_result(folder: RunFolder) -> dict[str, Any]:
    """What result.json holds, in the form it has now also where gradlex 0.1.0 wrote it."""
    found = folder.read_json("result.json")
    try:
        metrics = metrics_from(found)
        measures = found.get("measures") or [asdict(measure) for measure in Classification().measures]
        wrong = [name for name in _RESULT if type(found[name]) not in (int, float)]
        wrong += [] if all(isinstance(each["name"], str) for each in measures) else ["measures"]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"{folder.path / 'result.json'} is not the result of a run: {error!r}.") from error
    if wrong:
        raise InputError(
            f"{folder.path / 'result.json'} is damaged: its {wrong[0]} is {found.get(wrong[0])!r:.80}."
        )
    old = ("test_accuracy", "test_loss", "train_accuracy", "train_loss", "ema_test_accuracy", "ema_test_loss")
    return {
        **{name: value for name, value in found.items() if name not in old},
        "metrics": metrics,
        "measures": measures,
    }


def load_network(path: Path | str, *, ema: bool = False, device: str | None = "cpu") -> nn.Module:
    """The final network of a finished run, in evaluation mode; needs no data.

    With `ema` it has the moving average of the parents, which only runs trained with --ema keep.

    Examples:
        >>> import torch
        >>> from gradlex.runs import load_network, load_normalization
        >>> images = torch.rand(5, 1, 8, 8)
        >>> network = load_network("runs/mine")
        >>> network(load_normalization("runs/mine").apply(images)).shape
        torch.Size([5, 10])
    """
    folder = RunFolder(Path(path))
    recipe, data = stored_recipe(folder)
    _check_finished(folder, recipe, data)
    if ema and recipe.ema is None:
        raise InputError(
            f"{folder.path} kept no moving average: train with --ema 0.9 for one, or leave --ema out."
        )
    untrained = recipe.replace(model=without_weights(recipe.model))
    model = build_model(untrained, tuple(data["input_shape"]), _outputs(data))
    name = "ema.safetensors" if ema else "model.safetensors"
    load_weights(model, folder.path / name)
    return model.eval().to(find_device(device))


def load_task(path: Path | str) -> Task:
    """What a run learns, with what it took from its training part; refused where it was an object.

    Examples:
        >>> from gradlex.runs import load_task
        >>> load_task("runs/mine").classes
        10
    """
    recipe, data = stored_recipe(RunFolder(Path(path)))
    if recipe.task == GIVEN:
        raise InputError(f"the task of {path} was an object, which is not stored: make it again.")
    taken = data.get("task", {})
    if not isinstance(taken, dict):
        raise InputError(f"{Path(path) / 'recipe.json'} does not describe the run's task as gradlex does.")
    return make_task(recipe.task or "classification", {**recipe.task_options, **taken})


def load_normalization(path: Path | str) -> Normalization:
    """What a finished run's network takes its inputs normalized by: `load_normalization(RUN).apply(x)`.

    Examples:
        >>> import torch
        >>> from gradlex.runs import load_normalization
        >>> normalization = load_normalization("runs/mine")
        >>> normalization.apply(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 1, 8, 8])
    """
    folder = RunFolder(Path(path))
    recipe, data = stored_recipe(folder)
    _check_finished(folder, recipe, data)
    scales = data["normalization"]
    return Normalization(mean=tuple(scales["mean"]), std=tuple(scales["std"]))


def load_data(path: Path | str, *, data_dir: Path | None = None) -> Arrays:
    """The data that a run was trained on, where it is on this machine; refused where it has changed."""
    folder = RunFolder(Path(path))
    recipe, data = stored_recipe(folder)
    if recipe.dataset == GIVEN:
        raise InputError(f"{path} was trained from the library on data of its own, which is not stored.")
    arrays = load(recipe.replace(dataset=dataset_of(recipe, data, folder)), data_dir, download=False)
    if arrays.fingerprint() != data.get("fingerprint"):
        raise InputError(
            f"{recipe.dataset} has changed since the run was trained on it: restore the old data."
        )
    return arrays


def load_test_samples(
    path: Path | str, *, dataset: str | None = None, data_dir: Path | None = None
) -> ArraySamples:
    """The test samples of a run's data, or of another dataset that fits it, with the run's own normalization.

    Examples:
        >>> import numpy as np
        >>> from gradlex.runs import load_test_samples
        >>> samples = load_test_samples("runs/mine")
        >>> x, y = samples.clean(np.arange(4))
        >>> len(samples), x.shape
        (359, torch.Size([4, 1, 8, 8]))
    """
    folder = RunFolder(Path(path))
    recipe, data = stored_recipe(folder)
    _check_finished(folder, recipe, data)
    same = dataset is None or dataset == recipe.dataset
    own = recipe.replace(dataset=dataset_of(recipe, data, folder)) if same else recipe
    asked = own if same else _other(recipe, str(dataset), data["input_shape"])
    if data.get("table") is not None and not same:  # all rows of another table, by the run's own columns
        if not is_table(asked.dataset):
            raise InputError(
                f"{asked.dataset} is no table, and the run was trained on one: give a .csv or .parquet."
            )
        x, y = TableEncoding.from_dict(data["table"]).samples(os.path.expanduser(asked.dataset))
        return array_samples(x, y, load_normalization(path))
    arrays = load(asked, data_dir)
    if arrays.x_test is None or arrays.y_test is None:
        raise InputError(f"{asked.dataset} has no test part.")
    if list(arrays.input_shape) != data["input_shape"]:
        raise InputError(
            f"{asked.dataset} has samples of shape {arrays.input_shape}, the run was trained on "
            f"{tuple(data['input_shape'])}."
        )
    if arrays.labelled and arrays.num_classes != data["num_classes"]:
        raise InputError(
            f"{asked.dataset} has {arrays.num_classes} classes, the run was trained on {data['num_classes']}."
        )
    names = data["class_names"]
    if names is not None and arrays.class_names is not None and names != list(arrays.class_names):
        raise InputError(
            f"{asked.dataset} has the classes {', '.join(map(repr, arrays.class_names))}, the run was trained on "
            f"{', '.join(map(repr, names))}: they must be the same in the same order."
        )
    if dataset is None and arrays.fingerprint() != data["fingerprint"]:
        raise InputError(
            f"{asked.dataset} has changed since the run was trained on it: restore the old data, or name it with "
            "--dataset to evaluate on it as it is."
        )
    return array_samples(arrays.x_test, arrays.y_test, load_normalization(path))


def evaluator(
    model: nn.Module, samples: ArraySamples, task: Task, recipe: Recipe, device: str | None
) -> Worker:
    """A worker for a network that is trained no more."""
    found = find_device(device)
    samples = samples.to(found)
    if not takes_channels_last(model.to(found), samples.clean(np.arange(1))[0]):
        samples = samples.contiguous()
    return Worker(model, samples, task, recipe, found)


def _check_finished(folder: RunFolder, recipe: Recipe, data: dict[str, Any]) -> None:
    path = folder.path
    if GIVEN in (recipe.model, recipe.dataset):
        raise InputError(
            f"{path} was trained from the library on objects of its own, which are not stored: "
            "load model.safetensors into your model and evaluate it there."
        )
    if not (path / "result.json").exists():
        raise InputError(f"{path} is not finished: run gradlex resume {shlex.quote(str(path))} first.")
    shape, scales = data.get("input_shape"), data.get("normalization")
    fits = (
        isinstance(shape, list)
        and len(shape) > 0
        and all(_is_count(number) for number in [*shape, _outputs(data)])
        and isinstance(scales, dict)
        and all(_is_scale(scales.get(key), shape[0]) for key in ("mean", "std"))
        and all(deviation > 0 for deviation in scales["std"])
        and {"fingerprint", "num_classes", "class_names"} <= data.keys()
        and _are_names(data["class_names"], data["num_classes"])
    )
    if not fits:
        raise InputError(f"{path / 'recipe.json'} does not describe the run's data as gradlex does.")


def _lines(path: Path, *, whole: bool) -> list[bytes]:
    """The lines of a .jsonl file; the last one of a run that was cut off may be cut off too."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [line for line in lines if whole or line.endswith(b"\n")]


def _outputs(data: dict[str, Any]) -> Any:
    """How many outputs the network has; of a run of gradlex 0.1.0 one a class."""
    return data.get("outputs", data.get("num_classes"))


def _is_count(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given > 0


def _is_scale(given: Any, channels: int) -> bool:
    """Whether it is a list of one number a channel, in float32's range."""
    return (
        isinstance(given, list)
        and len(given) == channels
        and all(isinstance(v, int | float) and abs(v) < 3e38 for v in given)
    )


def _are_names(given: Any, classes: Any) -> bool:
    """Whether it names each class, or is None, since some data has no names."""
    return given is None or (
        isinstance(given, list) and len(given) == classes and all(isinstance(name, str) for name in given)
    )


def _other(recipe: Recipe, dataset: str, input_shape: list[int]) -> Recipe:
    """The recipe on other data: what it says of its own data's parts and size does not apply."""
    size = input_shape[-1] if len(input_shape) == 3 and is_folder(dataset) else None
    return recipe.replace(dataset=dataset, train_size=None, test_fraction=None, image_size=size)
