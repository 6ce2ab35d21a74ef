from __future__ import annotations

import pytest
import torch
from torch import nn


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return network()


@pytest.fixture
def nets() -> list[nn.Module]:
    """Four networks near each other, as fine-tuned ones are, with batch statistics of their own."""
    torch.manual_seed(1)
    first, made = network(), []
    for _ in range(4):
        other = network()
        state = {
            name: t + 0.3 * torch.randn_like(t) if t.is_floating_point() else t
            for name, t in first.state_dict().items()
        }
        state["1.running_var"] = state["1.running_var"].abs() + 0.1
        other.load_state_dict(state)
        made.append(other.eval())
    return made


@pytest.fixture
def data() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(2)
    x, y = torch.randn(300, 6), torch.randint(3, (300,))
    return {"train": (x[:100], y[:100]), "validation": (x[100:180], y[100:180]), "test": (x[180:], y[180:])}
