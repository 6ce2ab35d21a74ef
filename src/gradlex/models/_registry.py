"""What networks there are, by name. Free of torch, so that the command can list them at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One architecture: where its factory stands, where it was published, and what it needs."""

    name: str
    paper: str
    """Authors and year of the publication the architecture comes from."""
    module: str
    """The module, inside `gradlex.models`, that holds the factory."""
    factory: str
    smallest_picture: int = 0
    """The least height and width of a picture; 0 for a network of plain features."""
    gains_from_bfloat16: bool = True
    """Whether bfloat16 is faster than float32 where the processor computes it natively (measured)."""


_INFOS = (
    ModelInfo(
        name="small-cnn",
        paper="a small network of this project",
        module="_small",
        factory="small_cnn",
        smallest_picture=8,
    ),
    ModelInfo(
        name="mlp",
        paper="a small network of this project",
        module="_small",
        factory="mlp",
        gains_from_bfloat16=False,
    ),
    ModelInfo(
        name="vgg16",
        paper="Simonyan and Zisserman 2015",
        module="_vgg",
        factory="vgg16",
        smallest_picture=32,
    ),
    ModelInfo(
        name="resnet18",
        paper="He et al. 2016",
        module="_resnet",
        factory="resnet18",
        smallest_picture=32,
    ),
    ModelInfo(
        name="resnet50",
        paper="He et al. 2016",
        module="_resnet",
        factory="resnet50",
        smallest_picture=32,
    ),
    ModelInfo(
        name="densenet121",
        paper="Huang et al. 2017",
        module="_densenet",
        factory="densenet121",
        smallest_picture=32,
    ),
    ModelInfo(
        name="mobilenetv2",
        paper="Sandler et al. 2018",
        module="_mobilenet",
        factory="mobilenetv2",
        smallest_picture=32,
    ),
    ModelInfo(
        name="senet18",
        paper="Hu et al. 2018",
        module="_senet",
        factory="senet18",
        smallest_picture=32,
    ),
    ModelInfo(
        name="efficientnetb0",
        paper="Tan and Le 2019",
        module="_efficientnet",
        factory="efficientnetb0",
        smallest_picture=32,
        gains_from_bfloat16=False,
    ),
    ModelInfo(
        name="resnet20",
        paper="He et al. 2016, section 4.2",
        module="_resnet",
        factory="resnet20",
        smallest_picture=8,
    ),
    ModelInfo(
        name="resnet56",
        paper="He et al. 2016, section 4.2",
        module="_resnet",
        factory="resnet56",
        smallest_picture=8,
    ),
)

MODELS = {info.name: info for info in _INFOS}
