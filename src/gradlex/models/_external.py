"""Networks from elsewhere: `package.module:factory`, also from the current folder, and timm's.

`timm:NAME?pretrained` has the weights that timm downloads, `timm:NAME?pretrained=FILE` those of a file; timm fits them
to the number of channels and leaves out a last layer of other classes.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
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
    prefix = name.partition(":")[0]
    if prefix == "timm":
        _check_width(name, width)
        model, weights = _timm_parts(name)
        settings = {"num_classes": num_classes, "in_chans": in_channels, **weights}
        return _call(name, _timm_factory(model), settings)
    factory = _factory(name)
    return _call(name, factory, _settings(name, factory, num_classes, in_channels, width))


def without_weights(name: str) -> str:
    """The same network with random weights: what a run that has weights of its own needs of it."""
    return name.partition("?")[0] if name.startswith("timm:") else name


def _timm_parts(name: str) -> tuple[str, dict[str, Any]]:
    """timm's name of the network, and what to create it with."""
    model, asked, query = name.removeprefix("timm:").partition("?")
    key, given, file = query.partition("=")
    if not asked:
        return model, {}
    if key != "pretrained" or (given and not file):
        raise InputError(
            f"model {name!r}: after ? expected pretrained (timm's weights) or pretrained=FILE, got {query!r}."
        )
    if not given:
        return model, {"pretrained": True}
    path = Path(file).expanduser()
    if not path.is_file():
        raise InputError(f"model {name!r}: there is no file {file!r} with weights.")
    return model, {"pretrained": True, "pretrained_cfg_overlay": {"file": str(path)}}


def _timm_factory(model: str) -> Callable[..., object]:
    try:
        timm = importlib.import_module("timm")
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "timm":
            problem = "which is not installed: pip install 'gradlex[timm]'"
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
