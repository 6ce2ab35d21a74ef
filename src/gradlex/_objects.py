"""Import a user's object by `package.module:name`, also from the current folder."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from gradlex.errors import InputError, did_you_mean


def load_object(name: str, kind: str) -> Any:
    """The object called `package.module:name`; messages call it by its `kind`.

    As with `python -m`, the current folder is on the import path. It stays there: a spawned process inherits the path
    and must find the module again to unpickle its objects.
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise InputError(f"{kind} {name!r} is not of the form package.module:name, such as mycode:make.")
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # the file may have been written a moment ago
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
        cure = f" Install it, or start in its folder (now {folder})." if missing else ""
        raise InputError(f"{kind} {name!r}: importing {module_name} failed: {error}.{cure}") from error
    if not hasattr(module, attribute):
        hint = did_you_mean(attribute, (key for key, value in vars(module).items() if callable(value)))
        raise InputError(
            f"{kind} {name!r}: {module_name} ({getattr(module, '__file__', None)}) has no {attribute!r}.{hint}"
        )
    return getattr(module, attribute)
