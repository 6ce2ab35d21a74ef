"""From a name to a network."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, cast

from gradlex.errors import InputError, unknown_name
from gradlex.models._registry import MODELS

if TYPE_CHECKING:
    from torch import nn


def build(
    name: str,
    *,
    num_classes: int,
    in_channels: int = 3,
    image_size: int | None = None,
    width: float = 1.0,
) -> nn.Module:
    """Build the network called `name`, registered networks with PyTorch's default initialisation.

    `name` is one of `MODELS`, or `package.module:factory` (importable, also from the current folder), or
    `timm:` and a name of timm's where that is installed. `in_channels` are an image's channels, or the
    features of a plain vector; `image_size` the image's smaller side (None: unknown, not checked, nor is it
    for networks from elsewhere); `width` scales every hidden layer, 1.0 being the published size.

    Examples:
        >>> import torch
        >>> from gradlex.models import build
        >>> net = build("resnet18", num_classes=10, in_channels=3, width=0.125)
        >>> net(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    if num_classes < 1:
        raise InputError(f"num_classes must be at least 1, got {num_classes}.")
    if in_channels < 1:
        raise InputError(f"in_channels must be at least 1, got {in_channels}.")
    if not (math.isfinite(width) and width > 0):
        raise InputError(f"width must be a number above 0, 1.0 being the published size, got {width}.")
    if ":" in name:
        # Imported here because it imports torch, which the registry's readers do without.
        from gradlex.models._external import build_external  # noqa: PLC0415

        return build_external(name, num_classes=num_classes, in_channels=in_channels, width=width)
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    info = MODELS[name]
    if image_size is not None and image_size < info.smallest_image:
        raise InputError(
            f"{name} needs images of at least {info.smallest_image} x {info.smallest_image}, "
            f"got {image_size}: use small-cnn, or larger images."
        )
    module = importlib.import_module(f"gradlex.models.{info.module}")
    factory = getattr(module, info.factory)
    return cast("nn.Module", factory(num_classes=num_classes, in_channels=in_channels, width=width))
