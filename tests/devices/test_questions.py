"""What devices that are not here would answer: their modules are mocked, the rest is gradlex's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gradlex
from gradlex import _devices

CUDA, XPU, MPS = (torch.device(name) for name in ("cuda", "xpu", "mps"))


@pytest.fixture
def module(monkeypatch):
    """Puts a module in the place of a device's own."""

    def put(**answers):
        monkeypatch.setattr(torch, "get_device_module", lambda device: SimpleNamespace(**answers))

    return put


def test_no_line_asks_for_a_device_by_its_name():
    named = [
        f"{path.name}: {line.strip()}"
        for path in Path(gradlex.__file__).parent.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "torch.cuda" in line or 'device.type == "' in line or 'device.type in ("' in line
    ]
    assert [line for line in named if '"cpu"' not in line and '"meta"' not in line] == []


def test_a_worker_takes_the_device_of_its_place_where_only_the_kind_is_named(module):
    module(device_count=lambda: 3)
    assert [_devices.own(CUDA, place).index for place in range(5)] == [0, 1, 2, 0, 1]
    assert _devices.own(torch.device("cuda:2"), 0) == torch.device("cuda:2")
    assert _devices.own(torch.device("cpu"), 3) == torch.device("cpu")


def test_only_the_devices_own_generator_is_seeded(module):
    generators = [torch.Generator() for _ in range(3)]
    module(default_generators=generators, current_device=lambda: 1)
    _devices.seed(torch.device("xpu:2"), 7)
    _devices.seed(XPU, 8)
    assert [generator.initial_seed() for generator in generators[1:]] == [8, 7]
    assert generators[0].initial_seed() not in (7, 8)


def test_a_device_with_one_generator_is_seeded_by_its_module(module):
    seeds = []
    module(manual_seed=seeds.append)
    _devices.seed(MPS, 5)
    assert seeds == [5]


@pytest.mark.parametrize("native", [True, False])
def test_bfloat16_is_chosen_only_where_it_is_native(native, module):
    module(is_bf16_supported=lambda including_emulation: including_emulation or native)
    assert _devices.native_bfloat16(CUDA) is native
    assert _devices.native_bfloat16(XPU) is native


def test_a_device_that_does_not_tell_has_no_native_bfloat16_name_or_peak(module):
    module()
    assert not _devices.native_bfloat16(MPS)
    assert _devices.name(MPS) is None
    assert _devices.peak_memory(MPS) is None
    assert _devices.count(MPS) == 1
    _devices.make_current(MPS)


def test_name_and_peak_are_what_the_device_says(module):
    module(get_device_name=lambda device: f"maker of {device}", max_memory_allocated=lambda device: 12)
    assert _devices.name(CUDA) == "maker of cuda"
    assert _devices.peak_memory(CUDA) == 12


def test_processes_talk_through_the_devices_own_backend_and_gloo():
    assert _devices.backend(torch.device("cpu")) == "gloo"
    assert _devices.backend(CUDA) == "cpu:gloo,cuda:nccl"
    assert _devices.backend(XPU) == "cpu:gloo,xpu:xccl"
    assert _devices.backend(torch.device("ipu")) is None


def test_half_precision_is_no_choice_of_a_recipe():
    with pytest.raises(gradlex.InputError, match="precision"):
        gradlex.Recipe(precision="float16")
