from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import gradlex
from gradlex.data import ArraySamples
from gradlex.engine import Worker
from gradlex.tasks import Classification


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("offload", [False, True])
def test_candidates_asked_together_answer_as_each_would_alone(precision, offload):
    recipe = gradlex.Recipe(precision=precision, population=3, batch_size=8, generations=1, threads=1)
    torch.manual_seed(0)
    x, y = torch.randn(50, 12), torch.randint(5, (50,))
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
    worker = Worker(
        net, ArraySamples(x, y), Classification("loss"), recipe, torch.device("cpu"), offload=offload
    )
    states = [
        {name: torch.randn_like(t) for name, t in worker.first_parent().state.items()} for _ in range(3)
    ]
    cases = np.arange(50)
    together = worker.errors(states, cases)
    for row, state in zip(together, states, strict=True):
        alone = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
        alone.load_state_dict(state)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            losses = nn.functional.cross_entropy(alone(x).float(), y, reduction="none")
        np.testing.assert_array_equal(row, losses.numpy())
