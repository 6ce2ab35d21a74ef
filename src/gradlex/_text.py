"""A name with options in one text: `epsilon-lexicase(epsilon=0.1)`, `adamw(betas=(0.9, 0.95))`."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from gradlex._objects import load_object
from gradlex.errors import InputError, did_you_mean, unknown_name

_WORD = re.compile(r"[A-Za-z_][\w.-]*")
_CONSTANTS = {"true": True, "false": False, "none": None}


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the options of a text. Values are Python literals; bare words are strings.

    Examples:
        >>> from gradlex._text import parse
        >>> parse("epsilon-lexicase(epsilon=0.1, mode=semi-dynamic)")
        ('epsilon-lexicase', {'epsilon': 0.1, 'mode': 'semi-dynamic'})
        >>> parse("lexicase")
        ('lexicase', {})
    """
    name, opened, inside = text.strip().partition("(")
    if not opened:
        return name, {}
    source = f"f({inside}"
    options, keywords = {}, None
    try:
        call = ast.parse(source, mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
            keywords = call.keywords
            options = {each.arg: _value(each.value, source) for each in keywords if each.arg}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        keywords = None
    if keywords is None or len(options) < len(keywords):
        raise InputError(
            f"{text!r:.80} is not of the form NAME or NAME(OPTION=VALUE, ...), such as 'epsilon-lexicase(epsilon=0.1)'."
        )
    return name.strip(), options


def write(name: str, options: Mapping[str, Any]) -> str:
    """The text of a name with options, which `parse` reads again.

    Examples:
        >>> from gradlex._text import write
        >>> write("adamw", {"betas": (0.9, 0.95), "amsgrad": True})
        'adamw(betas=(0.9, 0.95), amsgrad=true)'
    """
    if not options:
        return name
    return f"{name}({', '.join(f'{key}={_written(value)}' for key, value in options.items())})"


def bind(kind: str, text: str, registry: Mapping[str, Callable[..., Any]]) -> functools.partial[Any]:
    """The class or function that a text names, with its options as keywords; `module:name` is imported.

    InputError for an unknown name, an option that the named object doesn't take, or one that it needs and lacks.
    """
    name, options = parse(text)
    if ":" not in name and name not in registry:
        raise unknown_name(kind, name, registry)
    factory = load_object(name, kind) if ":" in name else registry[name]
    if not callable(factory):
        raise InputError(f"{kind} {name!r} must name a class or a function, got {factory!r:.80}.")
    parameters = inspect.signature(factory).parameters.values()
    named = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    # What a function takes by position, such as a network's number of classes, its caller gives.
    keywords = [p for p in named if inspect.isclass(factory) or p.kind is p.KEYWORD_ONLY or p.default is not p.empty]
    takes = [p.name for p in keywords]
    for option in options:
        if option not in takes and not any(p.kind is p.VAR_KEYWORD for p in parameters):
            allowed, hint = ", ".join(takes) or "none", did_you_mean(option, takes)
            raise InputError(f"{kind} {name!r} has no option {option!r}: it takes {allowed}.{hint}")
    for parameter in keywords:
        if parameter.default is parameter.empty and parameter.name not in options:
            raise InputError(
                f"{kind} {name!r} needs the option {parameter.name!r}: write {name}({parameter.name}=...)."
            )
    return functools.partial(factory, **options)


def _value(node: ast.expr, source: str) -> Any:
    words = (ast.get_source_segment(source, node) or "").strip()
    if words.lower() in _CONSTANTS:
        return _CONSTANTS[words.lower()]
    return words if _WORD.fullmatch(words) else ast.literal_eval(node)


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and _WORD.fullmatch(value) and value.lower() not in _CONSTANTS:
        return value
    return repr(value.tolist() if hasattr(value, "tolist") else value)  # NumPy's numbers and arrays
