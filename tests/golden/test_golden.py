"""Thirteen small runs whose records, losses and weights were written down with gradlex 0.2, before 1.0 was written.

golden.json holds each run's problem, its recipe and what came of it. Choices and case numbers must match exactly and
losses and weights closely; on the processor and torch version where 0.2 was run for them, weights match to the bit.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import gradlex

CLOSE = {"rtol": 2e-3, "atol": 1e-4}  # processors round differently, and training amplifies it
GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))


def digits(shape: tuple[int, ...]) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))[:800]
    x = torch.from_numpy((images[order] / 8 - 1).astype(np.float32)).reshape(-1, *shape)
    y = torch.from_numpy(labels[order].astype(np.int64))
    return (x[:600], y[:600]), (x[600:], y[600:])


def waves() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (400, 3)).astype(np.float32)
    y = (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(0, 0.1, 400)).astype(np.float32) * 5 + 20
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    return (inputs[:300], targets[:300]), (inputs[300:], targets[300:])


def stripes() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Color images in bytes, whose class is the color and direction of faint stripes."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 6, 420)
    pattern = np.sin(np.arange(12) * 1.5)
    x = rng.normal(110, 40, (420, 3, 12, 12))
    for image, label in zip(x, labels, strict=True):
        image[label % 3] += 40 * (pattern[:, None] if label < 3 else pattern[None, :])
    images, targets = torch.from_numpy(x.clip(0, 255).astype(np.uint8)), torch.from_numpy(labels)
    return (images[:300], targets[:300]), (images[300:], targets[300:])


def mlp(inputs: int, outputs: int, dropout: float = 0.0) -> nn.Module:
    hidden = [nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]
    return nn.Sequential(*hidden, *([nn.Dropout(dropout)] if dropout else []), nn.Linear(32, outputs))


def cnn(channels: int, outputs: int, *, norm: bool) -> nn.Module:
    first = [nn.Conv2d(channels, 8, 3, padding=1), *([nn.BatchNorm2d(8)] if norm else []), nn.ReLU()]
    second = [nn.Conv2d(8, 16, 3, stride=2, padding=1), *([nn.BatchNorm2d(16)] if norm else []), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, outputs))


PROBLEMS = {
    "digits": lambda: (mlp(64, 10), *digits((64,))),
    "digits with dropout": lambda: (mlp(64, 10, dropout=0.2), *digits((64,))),
    "digits with batch norm": lambda: (cnn(1, 10, norm=True), *digits((1, 8, 8))),
    "waves": lambda: (mlp(3, 1), *waves()),
    "stripes": lambda: (cnn(3, 6, norm=False), *stripes()),
}


def problem(name: str) -> tuple[nn.Module, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A network with its first weights, training and test samples."""
    torch.manual_seed(3)
    return PROBLEMS[name]()


def described(model: nn.Module, like: nn.Module) -> dict[str, Any]:
    """Sums of each tensor and a checksum of all of them; a network inside `model` has longer names."""
    found = model.state_dict()
    names = {name: next(own for own in found if own == name or own.endswith(f".{name}")) for name in like.state_dict()}
    tensors = {name: found[own].cpu().contiguous() for name, own in names.items()}
    digest = hashlib.sha256()
    for tensor in tensors.values():
        digest.update(tensor.numpy().tobytes())
    sums = {name: [float(t.double().sum()), float(t.double().abs().sum())] for name, t in tensors.items()}
    return {"sums": sums, "sha256": digest.hexdigest()}


def machine() -> dict[str, str]:
    """What the last bits of a result depend on: the exact processor, and torch."""
    info = Path("/proc/cpuinfo")
    lines = [line.partition(":") for line in info.read_text(encoding="utf-8").splitlines()] if info.exists() else []
    found = {name.strip(): value.strip() for name, _, value in lines}
    words = " ".join(found.get(name, "") for name in ("vendor_id", "cpu family", "model", "stepping", "flags"))
    return {"cpu": hashlib.sha256(words.encode()).hexdigest()[:16], "torch": torch.__version__}


@pytest.fixture(scope="module", params=GOLDEN["runs"])
def pair(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Any, nn.Module]:
    """What was written down, the run of today, and the network it began with."""
    golden = {"name": request.param, **GOLDEN["runs"][request.param]}
    model, data, test = problem(golden["problem"])
    fields = {"precision": "float32", **golden["recipe"]}
    recipe = gradlex.Recipe.preset(fields.pop("preset", "paper"), **fields)
    return golden, gradlex.train(model, data, recipe, test=test, threads=1, device="cpu"), model


def test_choices_and_cases_are_exactly_as_they_were(pair: tuple[dict[str, Any], Any, nn.Module]) -> None:
    golden, run, _ = pair
    for before, record in zip(golden["history"], run.history, strict=True):
        now = json.loads(json.dumps(record.to_line()))
        assert {name: now[name] for name in before if name != "losses"} == {
            name: value for name, value in before.items() if name != "losses"
        }


def test_losses_weights_and_metrics_are_close(pair: tuple[dict[str, Any], Any, nn.Module]) -> None:
    golden, run, model = pair
    losses = [record.losses for record in run.history]
    for before, now in zip(golden["history"], losses, strict=True):
        np.testing.assert_allclose(now, before["losses"], **CLOSE)
    sums = described(run.model, model)["sums"]
    for name, before in golden["weights"]["sums"].items():
        np.testing.assert_allclose(sums[name], before, rtol=2e-3, atol=2e-3, err_msg=name)
    for name, value in golden["test"].items():
        np.testing.assert_allclose(run.metrics["test"][name], value, **CLOSE, err_msg=name)


@pytest.mark.skipif(machine() != GOLDEN["machine"], reason="bits match on one processor and torch version only")
def test_weights_are_the_same_bits_on_the_same_machine(pair: tuple[dict[str, Any], Any, nn.Module]) -> None:
    golden, run, model = pair
    assert described(run.model, model)["sha256"] == GOLDEN["sha256"][golden["name"]]
