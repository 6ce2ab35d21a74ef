"""The API reference: a page for every public module, made while the site is built, with every name it offers."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File, Files

import gradlex

MODULES = ("gradlex", *(name for name in gradlex.__all__ if isinstance(getattr(gradlex, name), ModuleType)))


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


def on_config(config: Any) -> Any:
    """Called by mkdocs: the pages come first in the part of the site that is called Reference."""
    (pages,) = (part["Reference"] for part in config.nav if "Reference" in part)
    titles = ["gradlex", *(f"gradlex.{name}" for name in MODULES[1:])]
    pages[:0] = [{title: f"docs/api/{name}.md"} for title, name in zip(titles, MODULES, strict=True)]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Called by mkdocs."""
    for module in MODULES:
        files.append(File.generated(config, f"docs/api/{module}.md", content=page(module)))
    return files
