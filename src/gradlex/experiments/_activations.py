"""Activations: what chosen layers of a finished run compute for the first test images.

Ding and Spector 2022, "Representation Diversity": the maximum of every channel over its map, for the first 100
test images. RUN/activations.npz keeps them, so that figure 2 can be made again without the weights.

Where no layer is named, the last two stages are taken. A stage is what works on maps of one size: children of the
network that follow each other and whose outputs have the same height and width, named by the last of them. In a
ResNet these are conv2_x, conv3_x, ... of He et al. 2016. Where one child holds the whole network (small-cnn's
`features`), its own children count. A network without maps (mlp) has the
inputs of its last two weighted layers.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from gradlex._files import write_whole
from gradlex.data import ArraySamples
from gradlex.errors import InputError, did_you_mean
from gradlex.population import capture
from gradlex.recipe import Recipe
from gradlex.runs import Problem, StoredRun, evaluator, load_network, load_task, load_test_samples, stored_run
from gradlex.tasks import Task

Activations: TypeAlias = dict[str, npt.NDArray[np.float32]]
T = TypeVar("T")

ACTIVATIONS = "activations.npz"
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class _Network:
    """A network and the samples that it is shown."""

    model: nn.Module
    test: ArraySamples
    task: Task
    recipe: Recipe
    device: str | None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.recipe.model


def record_activations(
    run: Path,
    *,
    layers: Sequence[str] | None = None,
    samples: int = 100,
    device: str | None = None,
    data_dir: Path | None = None,
) -> Path:
    """Keep RUN/activations.npz: a float32 (samples, channels) array for each layer, by the layer's name.

    `layers` are modules by their dotted names; None: those already kept, else the last two stages. What is kept for the
    same weights is not computed again, and stays when more layers are asked for. A test part smaller than `samples`
    is taken whole.
    """
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}.")
    stored = stored_run(run)
    weights = hashlib.sha256((run / _WEIGHTS).read_bytes()).hexdigest() if (run / _WEIGHTS).exists() else None
    known, of_weights = _kept(run) if (run / ACTIVATIONS).exists() else ({}, None)
    count = min(samples, stored.data.get("test_samples", samples))
    if weights not in (None, of_weights) or any(len(values) != count for values in known.values()):
        known = {}  # of a run that has been resumed since, or of another number of images
    if known and set(layers or ()) <= set(known):
        return run / ACTIVATIONS
    if weights is None and (run / "result.json").exists():
        raise InputError(
            f"{run} holds neither {_WEIGHTS} nor the activations of {', '.join(layers or ('its last stages',))} on "
            f"{count} test samples: bring {_WEIGHTS} back, or train the same recipe again in another folder."
        )
    network = _Network(
        model=load_network(run),
        test=load_test_samples(run, data_dir=data_dir),
        task=load_task(run),
        recipe=stored.recipe,
        device=device,
    )
    names = list(layers or _last_stages(network))
    _check_known(network, names)
    found = _watched(network, names, count, _pooled)
    new = {name: _joined(network.name, name, found.get(name, []), count) for name in names}
    write_whole(run / ACTIVATIONS, _packed({**known, **new}, str(weights)), shared=True)
    return run / ACTIVATIONS


def choose_layers(problem: Problem, layers: Sequence[str] = ()) -> tuple[str, ...]:
    """The named layers of a problem's model, or its last two stages; refused where it has none such."""
    if not isinstance(problem.test, ArraySamples):
        raise InputError("activations need test samples that are arrays.")
    network = _Network(
        model=problem.model,
        test=problem.test,
        task=problem.task,
        recipe=problem.recipe,
        device=str(problem.device),
    )
    names = list(layers or _last_stages(network))
    _check_known(network, names)
    found = _watched(network, names, 1, _pooled)
    for layer in names:
        _joined(network.name, layer, found.get(layer, []), 1)
    return tuple(names)


def check_same_images(runs: Sequence[StoredRun]) -> None:
    """Refuse runs that were not tested on the same samples; the part that each was trained on may differ."""
    names = {
        run.path: f"{Path(run.recipe.dataset).name} with {run.data['test_samples']} test samples"
        for run in runs
    }
    # A run of an early version knows only the fingerprint of all its data; then its name has to do.
    prints = {run.path: run.data.get("test_fingerprint") for run in runs}
    same = len({run.data["fingerprint"] for run in runs}) == 1
    if not same and len(set((names if None in prints.values() else prints).values())) > 1:
        found = "; ".join(f"{path} has {name}" for path, name in names.items())
        raise InputError(f"figure2 compares runs on the same test images, and these are not: {found}.")


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
            f"{run / ACTIVATIONS} cannot be read: {error!r}. Remove the file, and it is made again."
        ) from error
    if not all(values.ndim == 2 and values.dtype == np.float32 for values in arrays.values()):
        raise InputError(
            f"{run / ACTIVATIONS} does not hold activations. Remove the file, and it is made again."
        )
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
    network: _Network, names: Iterable[str], count: int, kept: Callable[[Tensor], T]
) -> dict[str, list[T]]:
    """What is `kept` of the modules' outputs for the first test samples, batch by batch, in order of computing."""
    found: dict[str, list[T]] = {}

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                found.setdefault(name, []).append(kept(output))

        return hook

    first = ArraySamples(*network.test.clean(np.arange(count)))
    worker = evaluator(network.model, first, network.task, network.recipe, network.device)
    handles = [worker.model.get_submodule(name).register_forward_hook(watch(name)) for name in names]
    try:
        worker.evaluate(capture(worker.model), worker.samples)  # in evaluation mode, in float32
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


def _check_known(network: _Network, names: Sequence[str]) -> None:
    inside = [name for name, _ in network.model.named_modules() if name]
    for given in names:
        if given not in inside:
            children = ", ".join(name for name, _ in network.model.named_children())
            raise InputError(
                f"{network.name} has no layer {given!r}.{did_you_mean(given, inside)} There are {children}, "
                "and what is inside them, by its dotted name."
            )


def _last_stages(network: _Network) -> list[str]:
    """The default layers."""
    modules = dict(network.model.named_modules())
    outputs = _watched(network, [name for name in modules if name], 1, lambda output: tuple(output.shape))
    shapes = {name: found[0] for name, found in outputs.items() if len(found) == 1}
    stages = _stages(modules, shapes, inside="")[-2:]
    if not stages:
        raise InputError(
            f"the stages of {network.name} cannot be found from its children's outputs: name the layers."
        )
    return stages


_POOLING = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d)


def _stages(
    modules: Mapping[str, nn.Module], shapes: Mapping[str, tuple[int, ...]], inside: str
) -> list[str]:
    """The stages among the children of one module; `shapes` are of outputs, in the order of computing."""
    children = [
        name
        for name in shapes
        if name.rpartition(".")[0] == inside and not isinstance(modules[name], _POOLING)
    ]
    maps = [name for name in children if len(shapes[name]) == 4]
    if maps:
        sizes = [list(group) for _, group in groupby(maps, key=lambda name: shapes[name][2:])]
        stages = [group[-1] for group in sizes if any(_weighted(modules[name]) for name in group)]
    else:
        weighted = [place for place, name in enumerate(children) if _weighted(modules[name])]
        stages = [children[place - 1] for place in weighted[1:]]
    holders = maps or children
    if len(stages) < 2 and len(holders) == 1:
        return _stages(modules, shapes, inside=holders[0]) or stages
    return stages


def _weighted(module: nn.Module) -> bool:
    """Whether it holds a matrix or kernel of weights; the scales of a norm are none."""
    return any(parameter.ndim >= 2 for parameter in module.parameters())
