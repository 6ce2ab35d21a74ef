"""A compiled network computes what it is compiled from, whichever candidate is swapped into it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import gradlex
from gradlex.data import ArraySamples
from gradlex.engine import Worker
from gradlex.tasks import Classification

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("c++") is None, reason="a CPU compiler needs a C++ compiler"),
    pytest.mark.filterwarnings("ignore"),  # torch's own, of its compiler
]


def test_a_compiled_run_agrees_with_the_plain_one_up_to_rounding(images, tiny_cnn, small):
    # The mean of all: a case that rounding decides would lead to another candidate.
    recipe = small.replace(promotion="average", momentum="inherit", lr=0.02)
    plain, compiled = (gradlex.train(tiny_cnn(), images, recipe.replace(compile=on)) for on in (False, True))
    for one, other in zip(compiled.generations, plain.generations, strict=True):
        assert one.losses == pytest.approx(other.losses, rel=1e-3)
    for name, tensor in plain.model.state_dict().items():
        assert torch.allclose(compiled.model.state_dict()[name], tensor, rtol=1e-3, atol=1e-4), name


def test_compiled_candidates_answer_cases_as_plain_ones_do(images, tiny_cnn, small):
    tables = []
    for on in (False, True):
        worker = Worker(
            tiny_cnn(),
            ArraySamples(*images),
            Classification("loss"),
            small.replace(compile=on),
            torch.device("cpu"),
        )
        state = worker.first_parent().state
        other = {name: 2 * tensor for name, tensor in state.items()}
        tables.append(worker.errors([state, other], np.arange(50)))
    assert np.allclose(*tables, rtol=1e-3, atol=1e-4)
    assert not np.allclose(tables[0][0], tables[0][1])
