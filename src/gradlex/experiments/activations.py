"""Representation diversity (Ding and Spector 2022, figure 2): how the last stages of a network respond to images.

Features are the largest activation of each channel, (images, channels). A stage is what works on maps of one size: in a
ResNet, conv2_x, conv3_x, ... of He et al. 2016.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import entropy
from torch import Tensor, nn

from gradlex._files import check_file, write_atomically
from gradlex.errors import InputError
from gradlex.runs.evaluate import evaluating

Features: TypeAlias = npt.NDArray[np.float32]

ACTIVATIONS = "activations.npz"
BINS = 50


def features(model: nn.Module, images: Tensor) -> dict[str, Features]:
    """The features of the last two stages, by the dotted names of the layers that end them.

    Examples:
        >>> import torch
        >>> from gradlex.experiments import features
        >>> from gradlex.models import build
        >>> found = features(build("resnet20", sample=(3, 32, 32), outputs=10), torch.rand(5, 3, 32, 32))
        >>> {layer: values.shape for layer, values in found.items()}
        {'conv3_x': (5, 32), 'conv4_x': (5, 64)}
    """
    sizes, found = dict[str, torch.Size](), dict[str, Features]()

    def watch(name: str, module: nn.Module, arguments: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            sizes[name] = output.shape[2:]
            if output.ndim > 2:
                found[name] = output.flatten(2).amax(dim=2).float().cpu().numpy()

    modules = dict(model.named_modules())
    with evaluating(model), ExitStack() as hooks:
        for name, module in modules.items():
            if name:
                hooks.callback(module.register_forward_hook(functools.partial(watch, name)).remove)
        model(images)
    stages = _stages(modules, sizes, inside="")[-2:]
    if not stages:
        raise InputError("this network has no stages: its feature maps don't come in several sizes.")
    return {name: found[name] for name in stages}


def save_features(folder: Path, found: Mapping[str, Features]) -> None:
    """Keep the features in a run's folder, where `gradlex.report.figure2` finds them.

    Examples:
        >>> from gradlex.experiments import features, save_features
        >>> save_features(method.folder, features(model, images))  # doctest: +SKIP
    """
    write_atomically(folder / ACTIVATIONS, lambda file: np.savez(file, **dict[str, Any](found)))


def load_features(folder: Path) -> dict[str, Features]:
    """The features that a run's folder keeps, by layer; empty if there are none."""
    if not (folder / ACTIVATIONS).exists():
        return {}
    check_file(folder / ACTIVATIONS, 2**30)
    with np.load(folder / ACTIVATIONS, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def common_edges(sets: Iterable[Features]) -> npt.NDArray[np.float64]:
    """The edges of 50 bins from the least to the greatest value of all sets."""
    return np.histogram_bin_edges(np.concatenate([each.ravel() for each in sets]).astype(np.float64), BINS)


DIVERSITY: Mapping[str, Callable[[Features, npt.NDArray[np.float64]], float]] = {
    "zeros": lambda found, _: float((found == 0).mean()),
    "entropy": lambda found, edges: float(entropy(np.histogram(found, edges)[0])),
    "effective rank": lambda found, _: float(np.exp(np.nan_to_num(entropy(np.linalg.svd(found, compute_uv=False))))),
}
"""Numbers for what figure 2 shows, from features and the edges of the bins.

Zeros: the part of all values that is exactly 0. Entropy: of the histogram of all values, in nats. Effective rank: the
exponential of the entropy of the singular values, not centered (Roy and Vetterli 2007).
"""


def _stages(modules: Mapping[str, nn.Module], sizes: Mapping[str, tuple[int, ...]], inside: str) -> list[str]:
    """The last module of each stage among one module's children; `sizes` are of maps, in the order of computing."""
    children = [
        name for name in sizes if name.rpartition(".")[0] == inside and "Pool" not in type(modules[name]).__name__
    ]
    weighted = {name for name in children if any(parameter.ndim >= 2 for parameter in modules[name].parameters())}
    maps = [name for name in children if sizes[name]]
    grouped = [list(group) for _, group in groupby(maps, key=sizes.__getitem__)]
    stages = [group[-1] for group in grouped if weighted & set(group)]
    holders = [name for name in maps if name in weighted] or [name for name in children if name in weighted]
    if len(stages) < 2 and len(holders) == 1:
        return _stages(modules, sizes, inside=holders[0]) or stages
    return stages
