from __future__ import annotations

import pytest
import torch
from torch import nn

import gradlex.models
from gradlex.models import MODELS, build, count


def test_a_convolution_multiplies_its_kernel_at_every_pixel() -> None:
    assert count(nn.Conv2d(3, 8, 5, stride=2, padding=2), (3, 32, 32)) == (8 * 75 + 8, 8 * 75 * 16 * 16)


def test_a_linear_layer_multiplies_every_weight_once() -> None:
    assert count(nn.Linear(20, 7), (20,)) == (147, 140)


def test_a_model_without_parameters_counts_nothing() -> None:
    assert count(nn.Flatten(), (3, 4)) == (0, 0)


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    [
        # ResNet20: the stem, three stages of six convolutions (the first of a later stage has half the input
        # channels), the classifier
        ("resnet20", 27 * 16 * 1024 + 6 * 144 * 16 * 1024 + 2 * (5.5 * 144 * 16 * 1024) + 640),
        ("resnet18", 555_422_720),
    ],
)
def test_multiply_adds_on_the_meta_device_are_those_of_the_layers(name: str, multiply_adds: float) -> None:
    with torch.device("meta"):
        model = build(name, num_classes=10)
    assert count(model, (3, 32, 32))[1] == multiply_adds


@pytest.mark.parametrize("name", MODELS)
def test_the_registry_has_the_counts_of_every_network(name: str) -> None:
    info = MODELS[name]
    shape = (3, 32, 32) if info.smallest_image else (3072,)
    with torch.device("meta"):
        model = build(name, num_classes=10, in_channels=shape[0])
    assert (info.parameters, info.multiply_adds) == count(model, shape)


def test_counting_leaves_a_real_model_as_it_was() -> None:
    torch.manual_seed(0)
    model = build("resnet20", num_classes=10, width=0.25)
    frozen = model.get_submodule("conv3_x").eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    count(model, (3, 32, 32))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.training
    assert not any(module.training for module in frozen.modules())


def test_the_meta_device_and_a_real_one_count_the_same() -> None:
    with torch.device("meta"):
        meta = build("mobilenetv2", num_classes=10, width=0.25)
    real = build("mobilenetv2", num_classes=10, width=0.25)
    assert count(meta, (3, 32, 32)) == count(real, (3, 32, 32))


def test_a_name_the_room_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        gradlex.models.nothing  # noqa: B018  (reading it is the test)
