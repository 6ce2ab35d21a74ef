from __future__ import annotations

import pytest
import torch
from torch import nn

from gradlex.population import capture, copy, install, installer


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.other.weight = self.one.weight
        self.register_buffer("kept", torch.zeros(2))
        self.register_buffer("passing", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.other(self.one(x))


def test_a_state_is_parameters_and_all_buffers_tied_ones_once():
    assert list(capture(Tied())) == ["one.weight", "one.bias", "other.bias", "kept", "passing"]


def test_a_captured_state_shares_its_storage_and_a_copy_does_not():
    model = Tied()
    shared, own = capture(model), copy(capture(model))
    with torch.no_grad():
        model.one.weight.fill_(7)
        model.passing.fill_(7)
    assert (shared["one.weight"] == 7).all()
    assert (shared["passing"] == 7).all()
    assert (own["one.weight"] != 7).all()
    assert (own["passing"] == 0).all()


def test_installing_a_state_keeps_the_parameters_the_same_objects_and_tied():
    model, twin = Tied(), Tied()
    weight = model.one.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    install(model, copy(capture(twin)))
    assert model.one.weight is weight is model.other.weight
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model(x), twin(x))
    model(x).sum().backward()
    optimizer.step()
    assert not torch.equal(model(x), twin(x))


@pytest.mark.parametrize("copies", [False, True])
def test_an_installer_puts_each_state_where_the_module_has_its_tensors_now(copies):
    model, states = (
        Tied(),
        [{**copy(capture(Tied())), "kept": torch.full((2,), value)} for value in (3.0, 4.0)],
    )
    put = installer(model, copies=copies)
    put(states[0])
    model.kept = model.kept + 10  # as a pass may do
    put(states[1])
    assert (model.kept == 4).all()
    assert (states[0]["kept"] == 3).all()
    assert torch.equal(model.other.weight, states[1]["one.weight"])
    shared = model.one.weight.data_ptr() == states[1]["one.weight"].data_ptr()
    assert shared is not copies


def test_a_copy_keeps_types_and_memory_formats():
    model = nn.Conv2d(3, 4, 3).double().to(memory_format=torch.channels_last)
    weight = copy(capture(model))["weight"]
    assert weight.dtype == torch.float64
    assert weight.is_contiguous(memory_format=torch.channels_last)
