"""Lazy attributes of a package (PEP 562), so that importing gradlex does not import torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_attributes(
    package: str, attributes: Mapping[str, str], modules: tuple[str, ...] = ()
) -> Callable[[str], Any]:
    """A package's `__getattr__`: imports each name from its home module, and its modules, on first use."""

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in attributes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(attributes[name]), name)

    return get
