"""The API reference: a page for every public module, made while the site is built, with every name it offers."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File, Files

MODULES = (
    "gradlex",
    *("selection", "callbacks", "tasks", "data", "models", "population", "engine", "runs", "experiments"),
    *("report", "presets"),
)


def names(module: ModuleType) -> list[str]:
    """What a module offers, without its submodules."""
    offered = sorted(getattr(module, "__all__", None) or _own(module), key=str.lower)
    return [name for name in offered if name[0] != "_" and not isinstance(getattr(module, name), ModuleType)]


def _own(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if (inspect.getmodule(value) is module and callable(value)) or name.isupper()
    ]


def page(title: str) -> str:
    """The Markdown of one module."""
    module = importlib.import_module(title if title == "gradlex" else f"gradlex.{title}")
    parts = [f"# {module.__name__}", inspect.getdoc(module) or ""]
    parts += [f"::: {module.__name__}.{name}" for name in names(module)]
    return "\n\n".join(parts) + "\n"


def on_files(files: Files, config: Any) -> Files:
    """Called by mkdocs."""
    for module in MODULES:
        files.append(File.generated(config, f"docs/api/{module}.md", content=page(module)))
    return files
