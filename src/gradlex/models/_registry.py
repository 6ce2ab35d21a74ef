"""What networks there are, by name. Free of torch, so that the command can list them at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One architecture: where its factory stands, where it was published, and what it needs.

    Examples:
        >>> from gradlex.models import MODELS
        >>> MODELS["resnet18"].paper, MODELS["resnet18"].parameters
        ('He et al. 2016', 11173962)
        >>> [name for name, info in MODELS.items() if info.parameters < 1_000_000]
        ['small-cnn', 'mlp', 'resnet20', 'resnet56']
    """

    name: str
    paper: str
    """Authors and year of the publication the architecture comes from."""
    module: str
    """The module, inside `gradlex.models`, that holds the factory."""
    factory: str
    parameters: int
    """How many, for 10 classes and 32 x 32 x 3 images (3,072 features) at width 1."""
    multiply_adds: int
    """For one such image: those of convolutions and matrix products."""
    smallest_image: int = 0
    """The least height and width of an image; 0 for a network of plain features."""
    gains_from_bfloat16: bool = True
    """Whether bfloat16 is faster than float32 where the CPU computes it natively (measured)."""


_INFOS = (
    ModelInfo(
        name="small-cnn",
        paper="a small network of this project",
        module="_small",
        factory="small_cnn",
        parameters=57_130,
        multiply_adds=15_041_152,
        smallest_image=8,
    ),
    ModelInfo(
        name="mlp",
        paper="a small network of this project",
        module="_small",
        factory="mlp",
        parameters=411_146,
        multiply_adds=410_880,
        gains_from_bfloat16=False,
    ),
    ModelInfo(
        name="vgg16",
        paper="Simonyan and Zisserman 2015",
        module="_vgg",
        factory="vgg16",
        parameters=14_728_266,
        multiply_adds=313_201_664,
        smallest_image=32,
    ),
    ModelInfo(
        name="resnet18",
        paper="He et al. 2016",
        module="_resnet",
        factory="resnet18",
        parameters=11_173_962,
        multiply_adds=555_422_720,
        smallest_image=32,
    ),
    ModelInfo(
        name="resnet50",
        paper="He et al. 2016",
        module="_resnet",
        factory="resnet50",
        parameters=23_520_842,
        multiply_adds=1_297_829_888,
        smallest_image=32,
    ),
    ModelInfo(
        name="densenet121",
        paper="Huang et al. 2017",
        module="_densenet",
        factory="densenet121",
        parameters=6_956_298,
        multiply_adds=888_350_720,
        smallest_image=32,
    ),
    ModelInfo(
        name="mobilenetv2",
        paper="Sandler et al. 2018",
        module="_mobilenet",
        factory="mobilenetv2",
        parameters=2_296_922,
        multiply_adds=91_154_944,
        smallest_image=32,
    ),
    ModelInfo(
        name="senet18",
        paper="Hu et al. 2018",
        module="_senet",
        factory="senet18",
        parameters=11_260_354,
        multiply_adds=555_509_760,
        smallest_image=32,
    ),
    ModelInfo(
        name="efficientnetb0",
        paper="Tan and Le 2019",
        module="_efficientnet",
        factory="efficientnetb0",
        parameters=3_598_598,
        multiply_adds=30_331_392,
        smallest_image=32,
        gains_from_bfloat16=False,
    ),
    ModelInfo(
        name="resnet20",
        paper="He et al. 2016, section 4.2",
        module="_resnet",
        factory="resnet20",
        parameters=269_722,
        multiply_adds=40_551_040,
        smallest_image=8,
    ),
    ModelInfo(
        name="resnet56",
        paper="He et al. 2016, section 4.2",
        module="_resnet",
        factory="resnet56",
        parameters=853_018,
        multiply_adds=125_485_696,
        smallest_image=8,
    ),
)

MODELS = {info.name: info for info in _INFOS}
