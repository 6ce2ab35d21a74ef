"""Import an object of the user's by `package.module:name`, also from the current folder."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from gradlex.errors import InputError, did_you_mean


def load_object(name: str, kind: str, *, wanted: str | None = None) -> Any:
    """The object called `package.module:name`; errors begin with its `kind` and end with what is `wanted`.

    The current folder is searched first, as with `python -m`. It stays on the import path once a module was found
    there: a spawned process gets that path, and must import the module again to unpickle what is made of it.
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise InputError(
            f"{kind} {name!r} is not of the form package.module:name, such as mycode:{attribute or 'name'}."
        )
    module = _import(kind, name, module_name)
    if not hasattr(module, attribute):
        hint = did_you_mean(attribute, (key for key, value in vars(module).items() if callable(value)))
        raise InputError(
            f"{kind} {name!r}: {module_name} (from {getattr(module, '__file__', None)}) has no {attribute!r}."
            f"{hint} Give the name of {wanted or f'a {kind}'}."
        )
    return getattr(module, attribute)


def _import(kind: str, name: str, module_name: str) -> ModuleType:
    importlib.invalidate_caches()  # a file written a moment ago must be seen
    folder = os.getcwd()
    added = "" not in sys.path and folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Is it the module asked for, or a package above it, that is missing, or something it imports itself?
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(f"{kind} {name!r}: importing {module_name} failed: {error}.") from error
        cure = "leave out .py" if module_name.endswith(".py") else "install it, or start in its folder"
        raise InputError(
            f"{kind} {name!r}: there is no module {error.name!r}, neither installed nor in {folder}: {cure}."
        ) from error
    except Exception as error:
        raise InputError(
            f"{kind} {name!r}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    finally:
        # Imported code may have changed the path itself.
        if added and not _found_in(folder, module_name) and folder in sys.path:
            sys.path.remove(folder)
    return module


def _found_in(folder: str, module_name: str) -> bool:
    """Whether a module was imported, and its outermost package lies right in the folder."""
    outermost = sys.modules.get(module_name.partition(".")[0])
    if outermost is None or module_name not in sys.modules:
        return False
    places = list(getattr(outermost, "__path__", None) or [getattr(outermost, "__file__", None) or ""])
    return any(
        os.path.samefile(os.path.dirname(place) or os.sep, folder)
        for place in places
        if os.path.exists(place)
    )
