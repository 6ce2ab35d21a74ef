"""Activations: what chosen layers of a finished run answer to the first test pictures.

Ding and Spector 2022, "Representation Diversity": of every channel the maximum over its map, for the first 100
test pictures. RUN/activations.npz keeps them, so that figure 2 can be made again without the weights.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from gradlex._disk import write_whole
from gradlex.data import ArraySamples
from gradlex.engine import Worker
from gradlex.errors import InputError, did_you_mean
from gradlex.experiments._stages import last_stages
from gradlex.population import capture
from gradlex.runs import FinishedModel, Problem, RunFolder, finished_model, stored_recipe
from gradlex.tasks import Classification

Activations: TypeAlias = dict[str, npt.NDArray[np.float32]]
T = TypeVar("T")

ACTIVATIONS = "activations.npz"
_WEIGHTS = "model.safetensors"


def record_activations(
    run: Path,
    *,
    layers: Sequence[str] | None = None,
    samples: int = 100,
    device: str | None = None,
    data_dir: Path | None = None,
) -> Path:
    """Keep RUN/activations.npz: a float32 (samples, channels) array for each layer, by the layer's name.

    `layers` are modules by their dotted names; None: those that are kept already, else the last two stages. What is
    kept of the same weights is not computed again, and stays where more layers are asked for. Of a test part
    smaller than `samples` all of it is taken.
    """
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}.")
    _, data = stored_recipe(RunFolder(run))
    weights = hashlib.sha256((run / _WEIGHTS).read_bytes()).hexdigest() if (run / _WEIGHTS).exists() else None
    known, of_weights = _kept(run) if (run / ACTIVATIONS).exists() else ({}, None)
    count = min(samples, data.get("test_samples", samples))
    if weights not in (None, of_weights) or any(len(values) != count for values in known.values()):
        known = {}  # of a run that has gone on since, or of another number of pictures
    if known and set(layers or ()) <= set(known):
        return run / ACTIVATIONS
    if weights is None and (run / "result.json").exists():
        raise InputError(
            f"{run} holds neither {_WEIGHTS} nor the activations of {', '.join(layers or ('its last stages',))} on "
            f"{count} test samples: bring {_WEIGHTS} back, or train the same recipe again in another folder."
        )
    finished = finished_model(run, device=device, data_dir=data_dir)
    names = list(layers or _last_stages(finished))
    _refuse_unknown(finished, names)
    found = _watched(finished, names, count, _pooled)
    new = {name: _joined(finished.recipe.model, name, found.get(name, []), count) for name in names}
    write_whole(run / ACTIVATIONS, _packed({**known, **new}, str(weights)), shared=True)
    return run / ACTIVATIONS


def choose_layers(problem: Problem, layers: Sequence[str] = ()) -> tuple[str, ...]:
    """The named layers of a problem's model, or its last two stages; refused where it has none such."""
    if problem.test is None or not isinstance(problem.test, ArraySamples):
        raise InputError("activations need test samples that are arrays.")
    asked = FinishedModel(
        recipe=problem.recipe,
        model=problem.model,
        test=problem.test,
        normalization=problem.normalization,
        device=problem.device,
    )
    names = list(layers or _last_stages(asked))
    _refuse_unknown(asked, names)
    found = _watched(asked, names, 1, _pooled)
    for name in names:
        _joined(asked.recipe.model, name, found.get(name, []), 1)
    return tuple(names)


def stored_activations(run: Path) -> Activations:
    """The (samples, channels) arrays that are kept with a run, by layer, in the order they were asked for."""
    if not (run / ACTIVATIONS).exists():
        raise InputError(
            f"{run} holds no {ACTIVATIONS}: make it from the run's weights with gradlex.experiments.record_activations."
        )
    return _kept(run)[0]


def _kept(run: Path) -> tuple[Activations, str]:
    """The activations, and the SHA-256 of the weights they were computed with."""
    try:
        with np.load(run / ACTIVATIONS, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        weights = str(arrays.pop(_WEIGHTS))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{run / ACTIVATIONS} cannot be read: {error!r}. Remove it, and it is made again."
        ) from error
    if not all(values.ndim == 2 and values.dtype == np.float32 for values in arrays.values()):
        raise InputError(f"{run / ACTIVATIONS} does not hold activations. Remove it, and it is made again.")
    return arrays, weights


def _packed(activations: Activations, weights: str) -> bytes:
    """The archive, without a time in it and uncompressed, so that the same arrays give the same bytes."""
    arrays: Mapping[str, npt.NDArray[Any]] = {**activations, _WEIGHTS: np.array(weights)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return buffer.getvalue()


def _watched(
    finished: FinishedModel, names: Iterable[str], count: int, kept: Callable[[Tensor], T]
) -> dict[str, list[T]]:
    """What is `kept` of the modules' outputs for the first test samples, batch by batch, in order of computing."""
    first = ArraySamples(*finished.test.clean(np.arange(count)))
    task = Classification(finished.recipe.case_error)
    worker = Worker(finished.model, first, task, finished.recipe, finished.device)
    found: dict[str, list[T]] = {}

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                found.setdefault(name, []).append(kept(output))

        return hook

    handles = [finished.model.get_submodule(name).register_forward_hook(watch(name)) for name in names]
    try:
        worker.evaluate(capture(worker.model), first)  # in evaluation mode, float32, with the run's threads
    finally:
        for handle in handles:
            handle.remove()
    return found


def _pooled(output: Tensor) -> npt.NDArray[np.float32]:
    """The channels' maxima of (N, channels, ...) maps; anything else as it is, copied from what may change yet."""
    pooled = output.flatten(2).amax(dim=2) if output.ndim >= 4 else output.clone()
    return np.asarray(pooled.float().cpu().numpy(), dtype=np.float32)


def _joined(
    model: str, layer: str, batches: list[npt.NDArray[np.float32]], count: int
) -> npt.NDArray[np.float32]:
    if sum(len(batch) for batch in batches) != count:
        raise InputError(
            f"layer {layer!r} of {model} is not computed once for every sample, with a tensor as its output: "
            "choose another."
        )
    if any(batch.ndim != 2 for batch in batches):
        raise InputError(
            f"layer {layer!r} of {model} gives {('N', *batches[0].shape[1:])}; it must give maps (N, channels, height, "
            "width) or features (N, features): choose another."
        )
    return np.concatenate(batches)


def _refuse_unknown(finished: FinishedModel, names: Sequence[str]) -> None:
    inside = [name for name, _ in finished.model.named_modules() if name]
    for given in names:
        if given not in inside:
            children = ", ".join(name for name, _ in finished.model.named_children())
            raise InputError(
                f"{finished.recipe.model} has no layer {given!r}.{did_you_mean(given, inside)} There are {children}, "
                "and what is inside them by its dotted name."
            )


def _last_stages(finished: FinishedModel) -> list[str]:
    """The default layers."""
    modules = dict(finished.model.named_modules())
    outputs = _watched(finished, [name for name in modules if name], 1, lambda output: tuple(output.shape))
    shapes = {name: found[0] for name, found in outputs.items() if len(found) == 1}
    stages = last_stages(modules, shapes)
    if not stages:
        raise InputError(
            f"the stages of {finished.recipe.model} cannot be told by its children's outputs: name the layers."
        )
    return stages
