"""A small problem with a known answer for each task, and its loss as plain PyTorch would have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Known:
    """Data that a network can learn, and what it must reach on other samples of the same kind."""

    task: str
    network: Callable[[], nn.Module]
    train: tuple[Any, Tensor]
    test: tuple[Any, Tensor]
    metric: str
    reached: Callable[[float], bool]
    loss: Callable[[Tensor, Tensor], Tensor]
    errors: Callable[[Tensor, Tensor], Tensor]
    settings: dict[str, Any] = field(default_factory=dict)


def made(network: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """The network, always with the same weights."""

    def make() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return network()

    return make


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def cut(x: Any, y: Tensor, test: int) -> tuple[tuple[Any, Tensor], tuple[Any, Tensor]]:
    parts = x if isinstance(x, dict) else {"": x}
    train, held = (
        {name: part[place] for name, part in parts.items()} for place in (slice(test, None), slice(test))
    )
    one, other = (train, held) if isinstance(x, dict) else (train[""], held[""])
    return (one, y[test:]), (other, y[:test])


def classification() -> Known:
    x = numbers(160, 4)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    train, test = cut(x, y, 40)
    return Known(
        "classification", made(lambda: nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))), train, test,
        "accuracy", lambda found: found >= 0.8,
        F.cross_entropy,
        lambda outputs, targets: (outputs.argmax(1) != targets).float(),
    )  # fmt: skip


def one_logit() -> Known:
    x = numbers(160, 4)
    y = (x[:, 0] + x[:, 1] > 0).long()
    train, test = cut(x, y, 40)
    return Known(
        "classification", made(lambda: nn.Linear(4, 1)), train, test, "accuracy", lambda found: found >= 0.9,
        lambda outputs, targets: F.binary_cross_entropy_with_logits(outputs[:, 0], targets.float()),
        lambda outputs, targets: ((outputs[:, 0] > 0) != (targets == 1)).float(),
    )  # fmt: skip


def regression() -> Known:
    x = numbers(160, 4)
    y = 1000 + 50 * (x[:, 0] - 2 * x[:, 1])
    train, test = cut(x, y, 40)
    mean, scale = train[1].double().mean(), train[1].double().std(correction=0)

    def standardised(targets: Tensor) -> Tensor:
        return ((targets.double() - mean) / scale).float()[:, None]

    return Known(
        "regression", made(lambda: nn.Linear(4, 1)), train, test, "r2", lambda found: found >= 0.95,
        lambda outputs, targets: F.mse_loss(outputs, standardised(targets)),
        lambda outputs, targets: (outputs - standardised(targets)).abs()[:, 0],
        {"lr": 0.05},
    )  # fmt: skip


def multi_label() -> Known:
    x = numbers(160, 4)
    y = (x[:, :3] > 0).long()
    train, test = cut(x, y, 40)
    return Known(
        "multi-label", made(lambda: nn.Linear(4, 3)), train, test, "f1", lambda found: found >= 0.9,
        lambda outputs, targets: F.binary_cross_entropy_with_logits(outputs, targets.float()),
        lambda outputs, targets: ((outputs > 0) != (targets == 1)).float().mean(1),
        {"lr": 0.5},
    )  # fmt: skip


def segmentation() -> Known:
    """Bright rectangles on a dark ground; the last row of pixels is marked as unknown."""
    rng = torch.Generator().manual_seed(1)
    y = torch.zeros(100, 6, 6, dtype=torch.int64)
    for image, (top, left) in enumerate(torch.randint(0, 4, (100, 2), generator=rng).tolist()):
        y[image, top : top + 3, left : left + 3] = 1
    x = y[:, None].float() + 0.2 * torch.randn(100, 1, 6, 6, generator=rng)
    y[:, 5] = -100
    train, test = cut(x, y, 25)

    def errors(outputs: Tensor, targets: Tensor) -> Tensor:
        found, shares = outputs.argmax(1), []
        for one, other in zip(found, targets, strict=True):
            seen = other >= 0
            own = []
            for kind in range(2):
                both = ((one == kind) & (other == kind) & seen).sum()
                either = (((one == kind) | (other == kind)) & seen).sum()
                own += [both / either] if either else []
            shares.append(1 - torch.stack(own).mean())
        return torch.stack(shares)

    return Known(
        "segmentation", made(lambda: nn.Conv2d(1, 2, 3, padding=1)), train, test, "miou", lambda found: found >= 0.8,
        lambda outputs, targets: F.cross_entropy(outputs, targets, ignore_index=-100), errors,
    )  # fmt: skip


class NextToken(nn.Module):
    """Guesses a token's successor from the token alone, by named inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 8), nn.Linear(8, 5)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.embedding(tokens) * mask[..., None])


def tokens() -> Known:
    """Sequences that count up, of several lengths, padded; the successor is certain."""
    rng = torch.Generator().manual_seed(2)
    start, length = torch.randint(0, 5, (100,), generator=rng), torch.randint(2, 7, (100,), generator=rng)
    whole = (start[:, None] + torch.arange(7)) % 5
    mask = torch.arange(6) < length[:, None]
    y = torch.where(mask, whole[:, 1:], -100)
    train, test = cut({"tokens": whole[:, :6] * mask, "mask": mask}, y, 25)

    def errors(outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.stack(
            [
                F.cross_entropy(one, other, ignore_index=-100)
                for one, other in zip(outputs, targets, strict=True)
            ]
        )

    return Known(
        "tokens", made(NextToken), train, test, "perplexity", lambda found: found <= 1.3,
        lambda outputs, targets: F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=-100), errors,
    )  # fmt: skip


PROBLEMS = {
    function.__name__: function
    for function in (classification, one_logit, regression, multi_label, segmentation, tokens)
}


@pytest.fixture(params=PROBLEMS)
def known(request: pytest.FixtureRequest) -> Known:
    """Each task's problem."""
    return PROBLEMS[request.param]()
