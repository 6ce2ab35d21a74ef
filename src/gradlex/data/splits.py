"""How samples are split. `prepare` draws each split once a run."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from gradlex.data.samples import Indices
from gradlex.errors import InputError
from gradlex.randomness import stream

_PART_SEED = 20220125  # no run's seed, so that runs with different seeds and methods can be compared


def cut(labels: Tensor | None, total: int, size: int, asked: str) -> tuple[Indices, Indices]:
    """Indices of a random part of `size` samples and of the rest, each in order; by class if there are labels.

    Every class gives its share by largest remainders, and a rare one at least one sample, so that no class is lost.
    """
    found = np.zeros(total, dtype=np.int64) if labels is None else labels.cpu().numpy()
    classes, counts = np.unique(found, return_counts=True)
    if size < max(2, len(classes)):
        raise InputError(
            f"{asked} leaves {size} of {total} samples for training: at least one for each class is needed, and two in "
            "all."
        )
    order = np.random.default_rng(_PART_SEED).permutation(total)
    share = counts * size / total
    quota = np.maximum(1, np.floor(share)).astype(np.intp)
    while quota.sum() < size:
        quota[np.argmax(share - quota)] += 1
    while quota.sum() > size:
        quota[np.argmin(np.where(quota > 1, share - quota, np.inf))] -= 1
    grouped = order[np.argsort(found[order], kind="stable")]
    members = np.split(grouped, np.cumsum(counts)[:-1])
    kept = np.concatenate([own[:taken] for own, taken in zip(members, quota, strict=True)])
    return np.sort(kept), np.setdiff1d(order, kept)


def hold_out(seed: int, total: int, fraction: float) -> tuple[Indices, Indices]:
    """Indices of the samples to learn from, and of the validation part, which depends on the run's seed."""
    held = round(fraction * total)
    if not 0 < held < total:
        raise InputError(
            f"validation_fraction {fraction:g} of {total} samples makes a part of {held}: both parts need samples."
        )
    order = stream(seed, "validation").permutation(total)
    return np.sort(order[held:]), np.sort(order[:held])
