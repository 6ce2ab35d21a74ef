"""From a name, a factory or a module to a network."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from gradlex._checks import Positive, check
from gradlex._objects import load_object
from gradlex._text import bind, parse
from gradlex.errors import InputError, did_you_mean
from gradlex.models.catalog import MODELS


def build(given: str | nn.Module, *, sample: Sequence[int], outputs: int) -> nn.Module:
    """Build a network with PyTorch's default initialization.

    Args:
        given: A name in `MODELS` with options, such as "resnet20(width=0.5)", where width scales every hidden layer;
            "package.module:factory"; "timm:NAME"; or a module, which is copied.
        sample: The shape of one sample: (channels, height, width) or (features,).
        outputs: The number of outputs, such as the number of classes.

    A factory is called with `num_classes`, `in_channels` and the options of the text, as far as its signature names
    them.

    Examples:
        >>> import torch
        >>> from gradlex.models import build
        >>> net = build("resnet18(width=0.125)", sample=(3, 32, 32), outputs=10)
        >>> net(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    if isinstance(given, nn.Module):
        return _copied(given)
    if not isinstance(given, str):
        raise InputError(f"model must be an nn.Module or a name, got {given!r:.80}.")
    name, options = parse(given)
    if "width" in options:
        check("width", Positive, options["width"])
    if name.startswith("timm:"):
        return _called(given, _timm(name), {"num_classes": outputs, "in_chans": sample[0], **options})
    if ":" in name:
        factory = load_object(name, "model")
        return _called(given, factory, {**_accepted(given, factory, outputs, sample[0]), **options})
    registered = bind("model", given, {known: info.factory for known, info in MODELS.items()})
    return _registered(name, registered, sample, outputs)


def _registered(name: str, factory: partial[nn.Module], sample: Sequence[int], outputs: int) -> nn.Module:
    smallest = MODELS[name].smallest_image
    if smallest and len(sample) != 3:
        raise InputError(f"{name} needs images; this data has {sample[0]} plain features: use mlp.")
    if smallest and min(sample[1:]) < smallest:
        raise InputError(
            f"{name} needs images of at least {smallest} x {smallest}, got {min(sample[1:])}: use small-cnn, or "
            "larger images."
        )
    try:
        return factory(outputs, sample[0] if smallest else math.prod(sample))
    except (MemoryError, RuntimeError, TypeError, OverflowError) as error:  # torch's words for too large
        raise InputError(f"{name} of this width is too large to be built here: choose a smaller one.") from error


def _copied(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:  # of torch, for a tensor that is computed, or of the user's class
        raise InputError(f"the model cannot be copied: {type(error).__name__}: {error}") from error


def _timm(name: str) -> Callable[..., Any]:
    try:
        import timm
    except ImportError as error:
        raise InputError(f"model {name!r} needs timm: pip install 'gradlex[timm]' ({error}).") from error
    model = name.removeprefix("timm:")
    if not timm.is_model(model):
        raise InputError(f"timm has no model {model!r}.{did_you_mean(model, timm.list_models())}")
    return partial(timm.create_model, model)


def _accepted(given: str, factory: Any, num_classes: int, in_channels: int) -> dict[str, int]:
    """What the factory's signature names. `**kwargs` gets channels only if they aren't torchvision's default of 3."""
    if isinstance(factory, nn.Module) or not callable(factory):
        raise InputError(f"model {given!r} must name a function or class that builds a new network.")
    parameters = inspect.signature(factory).parameters.values()
    names = {each.name for each in parameters}
    anything = any(each.kind is each.VAR_KEYWORD for each in parameters)
    found = {"num_classes": num_classes} if anything or "num_classes" in names else {}
    if "in_channels" in names or (anything and in_channels != 3):
        found["in_channels"] = in_channels
    return found


def _called(given: str, factory: Callable[..., Any], settings: dict[str, Any]) -> nn.Module:
    try:
        network = factory(**settings)
    except Exception as error:  # whatever a user's function may raise
        call = ", ".join(f"{key}={value}" for key, value in settings.items())
        raise InputError(f"model {given!r} failed for {call}: {type(error).__name__}: {error}") from error
    if not isinstance(network, nn.Module):
        raise InputError(f"model {given!r} must return a torch.nn.Module, got {network!r:.80}.")
    return network
