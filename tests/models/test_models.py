"""The registered networks, and networks from anyone's code."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from gradlex import InputError
from gradlex.models import MODELS, build

# The paper's networks in their 32 x 32 forms: parameters for 10 and for 100 classes.
PAPER = {
    "vgg16": (14_728_266, 14_774_436),
    "resnet18": (11_173_962, 11_220_132),
    "resnet50": (23_520_842, 23_705_252),
    "densenet121": (6_956_298, 7_048_548),
    "mobilenetv2": (2_296_922, 2_412_212),
    "senet18": (11_260_354, 11_306_524),
    "efficientnetb0": (3_598_598, 3_627_488),  # without the expand layer of 1,088 that the released form never uses
}
IMAGE = (3, 32, 32)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def sample(name: str) -> tuple[int, ...]:
    return IMAGE if MODELS[name].smallest_image else (3072,)


# The registry


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_networks_have_their_published_numbers_of_parameters(name: str) -> None:
    with torch.device("meta"):
        found = tuple(count(build(name, sample=IMAGE, outputs=classes)) for classes in (10, 100))
    assert found == PAPER[name]


@pytest.mark.parametrize("name", MODELS)
def test_the_catalog_counts_the_parameters(name: str) -> None:
    with torch.device("meta"):
        model = build(name, sample=sample(name), outputs=10)
    assert (MODELS[name].parameters, bool(MODELS[name].paper)) == (count(model), True)


@pytest.mark.parametrize("name", MODELS)
def test_a_narrow_network_answers_and_every_parameter_gets_a_gradient(name: str) -> None:
    torch.manual_seed(0)
    model = build(f"{name}(width=0.125)", sample=sample(name), outputs=7)
    outputs = model(torch.randn(2, *sample(name)))
    assert outputs.shape == (2, 7)
    outputs.square().sum().backward()
    assert [key for key, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("name", MODELS)
def test_width_scales_every_hidden_layer(name: str) -> None:
    with torch.device("meta"):
        half, double = (build(f"{name}(width={w})", sample=sample(name), outputs=10) for w in (0.5, 2))
    shapes = [[tuple(p.shape) for p in model.parameters()] for model in (half, double)]
    assert len(shapes[0]) == len(shapes[1])
    assert all(one[0] < other[0] for one, other in zip(*shapes, strict=True) if other[0] != 10)


@pytest.mark.parametrize("name", [name for name, info in MODELS.items() if info.smallest_image])
def test_the_smallest_image_is_enough_and_a_smaller_one_raises_an_error(name: str) -> None:
    side = MODELS[name].smallest_image
    model = build(f"{name}(width=0.125)", sample=(1, side, side), outputs=3).eval()
    assert model(torch.zeros(1, 1, side, side)).shape == (1, 3)
    with pytest.raises(InputError, match=f"{name} needs images of at least {side} x {side}, got {side - 1}"):
        build(name, sample=(1, side, side - 1), outputs=3)


def test_the_mlp_takes_images_and_features() -> None:
    model = build("mlp", sample=(3, 2, 2), outputs=4)
    assert model(torch.zeros(2, 12)).shape == model(torch.zeros(2, 3, 2, 2)).shape == (2, 4)


def test_stochastic_depth_is_an_option_of_efficientnet() -> None:
    torch.manual_seed(0)
    dropped = build("efficientnetb0(width=0.125, stochastic_depth=0.9)", sample=IMAGE, outputs=3)
    assert any(type(layer).__name__ == "StochasticDepth" for layer in dropped.modules())
    assert count(dropped) == count(build("efficientnetb0(width=0.125)", sample=IMAGE, outputs=3))


# Factories and modules of one's own

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes, in_channels=3, *, hidden=4):
        super().__init__()
        self.hidden, self.layer = hidden, nn.Conv2d(in_channels, num_classes, 1)

def classes_only(*, num_classes):
    return nn.Linear(4, num_classes)

def neither():
    return nn.Linear(4, 9)

def anything(**settings):
    net = nn.Identity()
    net.settings = settings
    return net

built = nn.Linear(2, 2)
number = 3

def a_list(num_classes):
    return [num_classes]

def broken(num_classes):
    raise ZeroDivisionError("no layers left")
"""


@pytest.fixture(autouse=True)
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the current folder, which python itself wouldn't find."""
    (tmp_path / "own_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "own_nets", raising=False)


def test_a_factory_gets_what_its_signature_names() -> None:
    model = build("own_nets:Net(hidden=8)", sample=(2, 8, 8), outputs=5)
    assert (model.layer.weight.shape[:2], model.hidden) == ((5, 2), 8)
    assert build("own_nets:classes_only", sample=(2, 8, 8), outputs=5)(torch.zeros(1, 4)).shape == (1, 5)
    assert build("own_nets:neither", sample=(2, 8, 8), outputs=5)(torch.zeros(1, 4)).shape == (1, 9)


def test_a_factory_of_any_keywords_gets_channels_that_are_not_the_usual_three() -> None:
    assert build("own_nets:anything", sample=IMAGE, outputs=5).settings == {"num_classes": 5}
    one = build("own_nets:anything(depth=2)", sample=(1, 32, 32), outputs=5)
    assert one.settings == {"num_classes": 5, "in_channels": 1, "depth": 2}


def test_a_module_is_copied() -> None:
    given = nn.Linear(2, 3)
    built = build(given, sample=(2,), outputs=3)
    assert built is not given
    assert torch.equal(built.weight, given.weight)
    built.weight.data.zero_()
    assert given.weight.abs().sum() > 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("resnet81", r"unknown model 'resnet81'. Did you mean 'resnet18'\? Known: densenet121"),
        ("resnet20(width=0)", "width must be a number above 0, got 0"),
        ("resnet20(width=true)", "width must be a number above 0, got True"),
        ("resnet20(widht=1)", r"has no option 'widht': it takes width. Did you mean 'width'"),
        ("resnet20(width=1e9)", "resnet20 of this width is too large"),
        ("resnet20(1)", "not of the form NAME or NAME"),
        ("own_nets:built", "must name a function or class that builds a new network"),
        ("own_nets:number", "must name a function or class"),
        ("own_nets:a_list", r"must return a torch.nn.Module, got \[5\]"),
        ("own_nets:broken", "'own_nets:broken' failed for num_classes=5: ZeroDivisionError: no layers left"),
        ("own_nets:classes_only(x=1)", "failed for num_classes=5, x=1: TypeError"),
        ("own_nets:brokn", r"has no 'brokn'. Did you mean 'broken'\?"),
        ("absent:make", "importing absent failed.*Install it, or start in its folder"),
        ("own_nets:", "not of the form package.module:name"),
        (3, "model must be an nn.Module or a name, got 3"),
    ],
)
def test_a_model_that_cannot_be_built_raises_an_error_with_the_cure(given: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build(given, sample=IMAGE, outputs=5)


def test_plain_features_raise_an_error_for_a_network_of_images() -> None:
    with pytest.raises(InputError, match="resnet20 needs images; this data has 30 plain features: use mlp"):
        build("resnet20", sample=(30,), outputs=5)


def test_a_module_that_cannot_be_copied_raises_an_error() -> None:
    model = nn.Linear(2, 2)
    model.computed = model.weight * 2
    with pytest.raises(InputError, match="the model cannot be copied: RuntimeError"):
        build(model, sample=(2,), outputs=2)


# timm


@pytest.mark.slow
def test_a_network_of_timm_gets_classes_channels_and_options() -> None:
    pytest.importorskip("timm")
    model = build("timm:resnet10t(drop_rate=0.1)", sample=(1, 32, 32), outputs=5).eval()
    assert model(torch.zeros(1, 1, 32, 32)).shape == (1, 5)
    with pytest.raises(InputError, match=r"timm has no model 'resnet10'. Did you mean 'resnet10t'"):
        build("timm:resnet10", sample=IMAGE, outputs=5)


def test_without_timm_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match=r"needs timm: pip install 'gradlex\[timm\]'"):
        build("timm:resnet10t", sample=IMAGE, outputs=5)
