"""The registered networks by name: factory, publication, size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from gradlex.models.densenet import densenet121
from gradlex.models.efficientnet import efficientnetb0
from gradlex.models.mobilenet import mobilenetv2
from gradlex.models.resnet import resnet18, resnet20, resnet50, resnet56
from gradlex.models.senet import senet18
from gradlex.models.small import SmallCNN, mlp
from gradlex.models.vgg import vgg16


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One architecture: how to make it, where it was published, and its size.

    Examples:
        >>> from gradlex.models import MODELS
        >>> MODELS["resnet18"].paper, MODELS["resnet18"].parameters
        ('He et al. 2016', 11173962)
        >>> [name for name, info in MODELS.items() if info.parameters < 1_000_000]
        ['small-cnn', 'mlp', 'resnet20', 'resnet56']
    """

    factory: Callable[..., nn.Module]
    """Called with the number of outputs, the number of input channels or features, and options as keywords."""
    paper: str
    """Authors and year of the publication."""
    parameters: int
    """At width 1 for 10 classes and 32 x 32 x 3 images (3,072 features)."""
    smallest_image: int = 32
    """The least height and width of an image; 0 for a network of plain features."""


_OWN = "a small network of this project"

MODELS: Mapping[str, ModelInfo] = {
    "small-cnn": ModelInfo(factory=SmallCNN, paper=_OWN, parameters=57_130, smallest_image=8),
    "mlp": ModelInfo(factory=mlp, paper=_OWN, parameters=411_146, smallest_image=0),
    "vgg16": ModelInfo(factory=vgg16, paper="Simonyan and Zisserman 2015", parameters=14_728_266),
    "resnet18": ModelInfo(factory=resnet18, paper="He et al. 2016", parameters=11_173_962),
    "resnet50": ModelInfo(factory=resnet50, paper="He et al. 2016", parameters=23_520_842),
    "densenet121": ModelInfo(factory=densenet121, paper="Huang et al. 2017", parameters=6_956_298),
    "mobilenetv2": ModelInfo(factory=mobilenetv2, paper="Sandler et al. 2018", parameters=2_296_922),
    "senet18": ModelInfo(factory=senet18, paper="Hu et al. 2018", parameters=11_260_354),
    "efficientnetb0": ModelInfo(factory=efficientnetb0, paper="Tan and Le 2019", parameters=3_598_598),
    "resnet20": ModelInfo(factory=resnet20, paper="He et al. 2016, section 4.2", parameters=269_722, smallest_image=8),
    "resnet56": ModelInfo(factory=resnet56, paper="He et al. 2016, section 4.2", parameters=853_018, smallest_image=8),
}
