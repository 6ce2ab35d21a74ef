from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from gradlex.errors import InputError
from gradlex.models import MODELS, build


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown model 'resnet81'\. Did you mean 'resnet18'\?"):
        build("resnet81", num_classes=10)


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_a_width_that_is_not_a_positive_number_is_refused(width: float) -> None:
    with pytest.raises(InputError, match=f"width must be a number above 0.*got {width}"):
        build("resnet20", num_classes=10, width=width)


def test_no_classes_are_refused() -> None:
    with pytest.raises(InputError, match="num_classes must be at least 1, got 0"):
        build("resnet20", num_classes=0)


def test_no_channels_are_refused() -> None:
    with pytest.raises(InputError, match="in_channels must be at least 1, got 0"):
        build("resnet20", num_classes=10, in_channels=0)


@pytest.mark.parametrize("name", [name for name, info in MODELS.items() if info.smallest_image])
def test_an_image_smaller_than_the_network_needs_is_refused(name: str) -> None:
    side = MODELS[name].smallest_image
    with pytest.raises(InputError, match=f"{name} needs images of at least {side} x {side}, got {side - 1}"):
        build(name, num_classes=10, image_size=side - 1)


def test_the_mlp_takes_flat_features_and_images_of_as_many_numbers() -> None:
    model = build("mlp", num_classes=4, in_channels=12)
    assert model(torch.zeros(2, 12)).shape == (2, 4)
    assert model(torch.zeros(2, 3, 2, 2)).shape == (2, 4)


def test_an_mlp_too_narrow_for_one_unit_is_refused() -> None:
    with pytest.raises(InputError, match=r"width 0\.001 leaves the mlp no hidden unit"):
        build("mlp", num_classes=4, in_channels=12, width=0.001)


def test_every_registered_name_states_its_paper() -> None:
    assert all(info.name == name and info.paper for name, info in MODELS.items())


def test_reading_the_registry_imports_no_torch() -> None:
    code = "import sys; from gradlex.models import MODELS, build; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
