"""Predictions: what the network of a finished run makes of every sample, as predictions.safetensors holds it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from gradlex.errors import InputError
from gradlex.tasks import Task, graded_errors, predictions

PREDICTIONS = "predictions.safetensors"


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The final network on the samples of one part of the data, in their order; clean, in float32.

    Examples:
        >>> from gradlex.runs import stored_predictions, stored_run
        >>> found = stored_predictions("runs/mine", stored_run("runs/mine").result)["train"]
        >>> hardest = found.errors.argsort()[-3:]  # the training samples with the largest loss
        >>> found.targets[hardest].shape
        (3,)
    """

    errors: npt.NDArray[np.float32]
    """(samples,): the task's error of each; its loss where errors say only right or wrong."""
    targets: npt.NDArray[np.number] | None
    predicted: npt.NDArray[np.number] | None
    """(samples,): what the task predicts, classes (int32) or numbers (float32); None where it is more than one number
    a sample."""


@dataclass(kw_only=True)
class PredictionRecorder:
    """Takes what a network answers, batch by batch."""

    task: Task
    _batches: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, outputs: Any, targets: Any) -> None:
        """Keep the errors, and what was predicted where that is one number per sample."""
        for name, values in (
            ("errors", graded_errors(self.task, outputs, targets)),
            ("targets", targets),
            ("predicted", predictions(self.task, outputs)),
        ):
            numbers = _numbers(values)
            if numbers is not None:
                self._batches.setdefault(name, []).append(numbers)

    def tensors(self) -> dict[str, Tensor]:
        """What was kept, by name: (samples,) each."""
        return {name: torch.cat(batches) for name, batches in self._batches.items()}


def _numbers(values: Any) -> Tensor | None:
    """One number per sample, as it is stored; None where there are more."""
    if not isinstance(values, Tensor) or values.is_complex() or values.numel() != len(values):
        return None
    kind = torch.float32 if values.is_floating_point() else torch.int32
    return values.detach().reshape(-1).to("cpu", kind)


def predictions_bytes(parts: Mapping[str, PredictionRecorder]) -> bytes:
    """What predictions.safetensors holds: PART/errors, PART/targets and PART/predicted."""
    return safetensors.torch.save(
        {
            f"{part}/{name}": tensor
            for part, taken in parts.items()
            for name, tensor in taken.tensors().items()
        }
    )


def stored_predictions(path: Path | str, result: Mapping[str, Any]) -> dict[str, Predictions]:
    """What a run with this result recorded by part, "train" and "test"; nothing where gradlex 0.1.0 ran it.

    Examples:
        >>> from gradlex.runs import stored_predictions, stored_run
        >>> parts = stored_predictions("runs/mine", stored_run("runs/mine").result)
        >>> sorted(parts)
        ['test', 'train']
        >>> parts["test"].predicted.shape
        (359,)
    """
    file = Path(path) / PREDICTIONS
    checksums = result.get("sha256")
    if not file.exists():
        return {}
    try:
        data = file.read_bytes()
        found = safetensors.numpy.load(data)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{file} cannot be read: {error}. Restore the file, or remove it.") from error
    if isinstance(checksums, dict) and checksums.get(PREDICTIONS) != hashlib.sha256(data).hexdigest():
        raise InputError(
            f"{file} is damaged: its checksum is not the one in result.json. Restore it, or remove it."
        )
    return {
        part: Predictions(
            errors=found[f"{part}/errors"],
            targets=found.get(f"{part}/targets"),
            predicted=found.get(f"{part}/predicted"),
        )
        for part in ("train", "test")
        if f"{part}/errors" in found
    }
