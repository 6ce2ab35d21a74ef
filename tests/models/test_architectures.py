from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchvision.ops import StochasticDepth

from gradlex.errors import InputError
from gradlex.models import MODELS, build, efficientnetb0
from gradlex.models._resnet import PaddedShortcut

IMAGE_NETWORKS = [name for name, info in MODELS.items() if info.smallest_image]

# The paper's seven are its published counts (EfficientNetB0 without the expand layer it never uses); those of
# ResNet20 and 56 are the sums of section 4.2's layers with parameter-free shortcuts.
PARAMETERS = {
    "vgg16": (14_728_266, 14_774_436),
    "resnet18": (11_173_962, 11_220_132),
    "resnet50": (23_520_842, 23_705_252),
    "densenet121": (6_956_298, 7_048_548),
    "mobilenetv2": (2_296_922, 2_412_212),
    "senet18": (11_260_354, 11_306_524),
    "efficientnetb0": (3_598_598, 3_627_488),
    "resnet20": (269_722, 275_572),
    "resnet56": (853_018, 858_868),
}


def parameters(name: str, *, num_classes: int = 10, width: float = 1.0) -> int:
    with torch.device("meta"):
        model = build(name, num_classes=num_classes, width=width)
    return sum(parameter.numel() for parameter in model.parameters())


def on_meta(name: str, shape: tuple[int, ...], *, num_classes: int = 10) -> torch.Tensor:
    with torch.device("meta"):
        model = build(name, num_classes=num_classes, in_channels=shape[1])
        result: torch.Tensor = model(torch.zeros(shape))
        return result


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_equal_the_published_count_for_10_and_100_classes(name: str) -> None:
    assert (parameters(name), parameters(name, num_classes=100)) == PARAMETERS[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_quarter_of_the_width_has_about_a_sixteenth_of_the_parameters(name: str) -> None:
    # Multiples of 8 round the narrowest layers of MobileNetV2 and EfficientNetB0 up.
    assert 1 / 20 < parameters(name, width=0.25) / parameters(name) < 1 / 10


@pytest.mark.parametrize("width", [0.01, 0.3, 0.7, 1.3])
@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_any_width_gives_a_working_network(name: str, width: float) -> None:
    with torch.device("meta"):
        model = build(name, num_classes=10, width=width)
        assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize("width", [pytest.param(1.0, marks=pytest.mark.slow), 0.25])
@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_one_training_step_reaches_every_parameter(name: str, width: float) -> None:
    torch.manual_seed(0)
    model = build(name, num_classes=10, width=width)
    logits = model(torch.randn(2, 3, 32, 32))
    assert logits.shape == (2, 10)
    F.cross_entropy(logits, torch.tensor([0, 1])).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_one_image_in_evaluation_mode_equals_the_same_image_in_a_batch(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, num_classes=10, width=0.25).eval()
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(model(images[:1]), model(images)[:1], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_channels_last_changes_no_result(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, num_classes=10, width=0.25).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        contiguous = model(images)
        model.to(memory_format=torch.channels_last)
        last = model(images.to(memory_format=torch.channels_last))
    torch.testing.assert_close(contiguous, last, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_bfloat16_autocast_trains_channels_last(name: str) -> None:
    torch.manual_seed(0)
    model = build(name, num_classes=10, width=0.25).to(memory_format=torch.channels_last)
    images = torch.randn(2, 3, 32, 32).to(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(images)
    assert logits.dtype == torch.bfloat16
    F.cross_entropy(logits.float(), torch.tensor([0, 1])).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(
    "shape", [(2, 3, 48, 48), (2, 3, 33, 47), (2, 3, 224, 224), (2, 1, 32, 32), (2, 7, 32, 32)]
)
@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_any_image_from_32_up_with_any_channels_is_classified(name: str, shape: tuple[int, ...]) -> None:
    assert on_meta(name, shape, num_classes=5).shape == (2, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_a_larger_grey_image_trains(name: str) -> None:
    model = build(name, num_classes=10, in_channels=1, width=0.25)
    model(torch.randn(2, 1, 48, 48)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_the_smallest_image_of_the_registry_trains(name: str) -> None:
    side = MODELS[name].smallest_image
    model = build(name, num_classes=10, image_size=side, width=0.25)
    assert model(torch.randn(2, 3, side, side)).isfinite().all()


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_weights_start_from_pytorchs_default(name: str) -> None:
    torch.manual_seed(0)
    for module in build(name, num_classes=10, width=0.25).modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            # Kaiming uniform with a = sqrt(5): within 1 / sqrt(fan-in), and near it somewhere
            fan_in = module.weight[0].numel()
            assert 0.5 < module.weight.abs().max().item() * math.sqrt(fan_in) <= 1.0 + 1e-6
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("resnet18", {"conv2_x": (64, 32), "conv3_x": (128, 16), "conv4_x": (256, 8), "conv5_x": (512, 4)}),
        (
            "resnet50",
            {"conv2_x": (256, 32), "conv3_x": (512, 16), "conv4_x": (1024, 8), "conv5_x": (2048, 4)},
        ),
        ("senet18", {"conv2_x": (64, 32), "conv3_x": (128, 16), "conv4_x": (256, 8), "conv5_x": (512, 4)}),
        ("resnet20", {"conv2_x": (16, 32), "conv3_x": (32, 16), "conv4_x": (64, 8)}),
    ],
)
def test_residual_stages_are_found_by_the_papers_names(name: str, shapes: dict[str, tuple[int, int]]) -> None:
    seen = {}
    with torch.device("meta"):
        model = build(name, num_classes=10)
        for stage in shapes:
            model.get_submodule(stage).register_forward_hook(
                lambda _module, _inputs, maps, stage=stage: seen.update({stage: maps.shape})
            )
        model(torch.zeros(2, 3, 32, 32))
    assert seen == {stage: (2, channels, side, side) for stage, (channels, side) in shapes.items()}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("vgg16", (512, 1, 1)),
        ("densenet121", (1024, 4, 4)),
        ("mobilenetv2", (1280, 4, 4)),
        ("efficientnetb0", (320, 2, 2)),
    ],
)
def test_the_last_maps_have_the_size_of_the_32_x_32_form(name: str, shape: tuple[int, int, int]) -> None:
    seen = []
    with torch.device("meta"):
        model = build(name, num_classes=10)
        model.get_submodule("pool").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
        model(torch.zeros(2, 3, 32, 32))
    assert seen == [(2, *shape)]


def test_an_option_a_shortcut_takes_every_second_pixel_and_pads_with_zeros() -> None:
    maps = torch.randn(2, 3, 5, 5)
    across = PaddedShortcut(extra=2, stride=2)(maps)
    assert across.shape == (2, 5, 3, 3)
    assert torch.equal(across[:, :3], maps[:, :, ::2, ::2])
    assert (across[:, 3:] == 0).all()


def test_efficientnet_has_stochastic_depth_only_where_it_is_asked_for() -> None:
    def depths(model: nn.Module) -> list[float]:
        return [module.p for module in model.modules() if isinstance(module, StochasticDepth)]

    assert depths(build("efficientnetb0", num_classes=10)) == []
    published = depths(efficientnetb0(num_classes=10, stochastic_depth=0.2))
    assert (len(published), published[0], published[-1]) == (9, pytest.approx(0.025), pytest.approx(0.175))
    assert published == sorted(published)


def test_stochastic_depth_changes_neither_parameters_nor_evaluation() -> None:
    models = []
    for drop in (0.0, 0.5):
        torch.manual_seed(0)
        models.append(efficientnetb0(num_classes=10, width=0.25, stochastic_depth=drop))
    plain, dropped = models
    assert list(plain.state_dict()) == list(dropped.state_dict())
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(plain.eval()(images), dropped.eval()(images))
        torch.manual_seed(1)
        with_drops = dropped.train()(images)
        torch.manual_seed(1)
        assert not torch.equal(plain.train()(images), with_drops)


def test_a_stochastic_depth_that_is_no_chance_is_refused() -> None:
    with pytest.raises(
        InputError, match="stochastic_depth must be a number of at least 0 and at most 1, got 2"
    ):
        efficientnetb0(num_classes=10, stochastic_depth=2)


def test_efficientnet_is_random_in_training_only() -> None:
    torch.manual_seed(0)
    model = build("efficientnetb0", num_classes=10, width=0.25)
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        assert not torch.equal(model(images), model(images))
        model.eval()
        assert torch.equal(model(images), model(images))


def test_the_same_seed_gives_the_same_network() -> None:
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        states.append(build("resnet20", num_classes=10).state_dict())
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
