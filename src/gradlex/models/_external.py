"""Networks from elsewhere: `package.module:factory`, also from the current folder, and `timm:name`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from gradlex._objects import load_object
from gradlex.errors import InputError, did_you_mean


def build_external(name: str, *, num_classes: int, in_channels: int, width: float) -> nn.Module:
    """The network of a name with a colon.

    A factory gets those of `num_classes`, `in_channels` and `width` that its signature names. One that takes
    `**kwargs` gets `num_classes`, and the others only where they are not the defaults 3 and 1.0, so that
    `torchvision.models:resnet18` works on colour images.
    """
    prefix, _, rest = name.partition(":")
    if prefix == "timm":
        _check_width(name, width)
        return _call(name, _timm_factory(rest), {"num_classes": num_classes, "in_chans": in_channels})
    factory = _factory(name)
    return _call(name, factory, _settings(name, factory, num_classes, in_channels, width))


def _timm_factory(model: str) -> Callable[..., object]:
    try:
        timm = importlib.import_module("timm")
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "timm":
            problem = "which is not installed: pip install gradlex[timm]"
        else:
            problem = f"which is installed but cannot be imported: {type(error).__name__}: {error}"
        raise InputError(f"model 'timm:{model}' needs timm, {problem}") from error
    if not timm.is_model(model):
        hint = did_you_mean(model, timm.list_models())
        raise InputError(f"timm has no model {model!r}.{hint} timm.list_models() lists them all.")

    def create(**settings: Any) -> object:
        return timm.create_model(model, **settings)

    return create


def _factory(name: str) -> Callable[..., object]:
    """What stands behind `package.module:factory`."""
    factory: object = load_object(name, "model", wanted="a function that returns a network")
    if isinstance(factory, nn.Module) or not callable(factory):
        kind = "a network already built" if isinstance(factory, nn.Module) else f"a {type(factory).__name__}"
        raise InputError(f"model {name!r} is {kind}: give a function or class that builds a new network.")
    return factory


def _settings(
    name: str, factory: Callable[..., object], num_classes: int, in_channels: int, width: float
) -> dict[str, object]:
    """Of what can be passed, what the factory's signature accepts."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # a built-in without a signature
        parameters = {}.values()
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if "width" not in named and not anything:
        _check_width(name, width)
    offered = {"num_classes": num_classes, "in_channels": in_channels, "width": width}
    defaults = {"in_channels": 3, "width": 1.0}
    return {
        key: value
        for key, value in offered.items()
        if key in named or (anything and value != defaults.get(key))
    }


def _call(name: str, factory: Callable[..., object], settings: dict[str, Any]) -> nn.Module:
    call = f"{name}({', '.join(f'{key}={value}' for key, value in settings.items())})"
    try:
        network = factory(**settings)
    except Exception as error:
        raise InputError(f"model {call} failed: {type(error).__name__}: {error}") from error
    if not isinstance(network, nn.Module):
        raise InputError(
            f"model {call} returned {network!r:.80}, a {type(network).__name__}: "
            "it must return a torch.nn.Module."
        )
    return network


def _check_width(name: str, width: float) -> None:
    if width != 1.0:
        raise InputError(f"model {name!r} takes no width, got width {width}: leave it at 1.0.")
